// Before anything is painted: the chosen theme, so that no page flashes in the other one.
try {
  const chosen = localStorage.getItem("headgate.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // no storage: the system's own theme it is
}
