import { defineConfig } from "vitest/config";

// In development `vite` serves the sources and passes requests on to a server at HEADGATE_URL.
const server = process.env.HEADGATE_URL ?? "http://127.0.0.1:8081";

export default defineConfig({
  base: "./",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../jobmanager/dashboard",
    emptyOutDir: true,
    target: "es2022",
    // The first ones with light-dark(), so that it is not rewritten for older ones.
    cssTarget: ["chrome123", "edge123", "firefox120", "safari17.5"],
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
  server: { proxy: { "/v1": server } },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
});
