"""Runners as Flink shows its task managers."""

from pydantic import Field, RootModel

from jobmanager.api.shapes.flink.flink_shape import FlinkShape


class ResourceProfile(FlinkShape):
    cpu_cores: float = Field(alias="cpuCores")
    task_heap_memory: int = Field(alias="taskHeapMemory")
    """Mebibytes."""
    task_off_heap_memory: int = Field(alias="taskOffHeapMemory")
    managed_memory: int = Field(alias="managedMemory")
    network_memory: int = Field(alias="networkMemory")
    extended_resources: dict[str, float] = Field(alias="extendedResources")


class Hardware(FlinkShape):
    cpu_cores: int = Field(alias="cpuCores")
    """-1: unknown, also in the other fields."""
    physical_memory: int = Field(alias="physicalMemory")
    free_memory: int = Field(alias="freeMemory")
    managed_memory: int = Field(alias="managedMemory")


class MemoryConfiguration(FlinkShape):
    """-1: unknown, or a kind of memory that Spark does not have."""

    framework_heap: int = Field(alias="frameworkHeap")
    task_heap: int = Field(alias="taskHeap")
    framework_off_heap: int = Field(alias="frameworkOffHeap")
    task_off_heap: int = Field(alias="taskOffHeap")
    network_memory: int = Field(alias="networkMemory")
    managed_memory: int = Field(alias="managedMemory")
    jvm_metaspace: int = Field(alias="jvmMetaspace")
    jvm_overhead: int = Field(alias="jvmOverhead")
    total_flink_memory: int = Field(alias="totalFlinkMemory")
    total_process_memory: int = Field(alias="totalProcessMemory")


class TaskManager(FlinkShape):
    id: str
    """The runner."""
    path: str
    data_port: int = Field(alias="dataPort")
    jmx_port: int = Field(alias="jmxPort")
    time_since_last_heartbeat: int = Field(alias="timeSinceLastHeartbeat")
    """The time of the last heartbeat, in spite of the name."""
    slots_number: int = Field(alias="slotsNumber")
    free_slots: int = Field(alias="freeSlots")
    assigned_tasks: int = Field(alias="assignedTasks")
    total_resource: ResourceProfile = Field(alias="totalResource")
    free_resource: ResourceProfile = Field(alias="freeResource")
    hardware: Hardware
    memory_configuration: MemoryConfiguration = Field(alias="memoryConfiguration")
    blocked: bool


class TaskManagers(FlinkShape):
    taskmanagers: list[TaskManager]


class AllocatedSlot(FlinkShape):
    job_id: str = Field(alias="jobId")
    resource: ResourceProfile
    assigned_tasks: int = Field(alias="assignedTasks")


class GarbageCollector(FlinkShape):
    name: str
    count: int
    time: int


class RunnerMemoryFigures(FlinkShape):
    """-1: unknown."""

    heap_used: int = Field(alias="heapUsed")
    heap_committed: int = Field(alias="heapCommitted")
    heap_max: int = Field(alias="heapMax")
    non_heap_used: int = Field(alias="nonHeapUsed")
    non_heap_committed: int = Field(alias="nonHeapCommitted")
    non_heap_max: int = Field(alias="nonHeapMax")
    direct_count: int = Field(alias="directCount")
    direct_used: int = Field(alias="directUsed")
    direct_max: int = Field(alias="directMax")
    mapped_count: int = Field(alias="mappedCount")
    mapped_used: int = Field(alias="mappedUsed")
    mapped_max: int = Field(alias="mappedMax")
    segments_available: int = Field(alias="nettyShuffleMemorySegmentsAvailable")
    segments_used: int = Field(alias="nettyShuffleMemorySegmentsUsed")
    segments_total: int = Field(alias="nettyShuffleMemorySegmentsTotal")
    shuffle_available: int = Field(alias="nettyShuffleMemoryAvailable")
    shuffle_used: int = Field(alias="nettyShuffleMemoryUsed")
    shuffle_total: int = Field(alias="nettyShuffleMemoryTotal")
    garbage_collectors: list[GarbageCollector] = Field(alias="garbageCollectors")


class TaskManagerDetails(TaskManager):
    allocated_slots: list[AllocatedSlot] = Field(alias="allocatedSlots")
    metrics: RunnerMemoryFigures


class LogFile(FlinkShape):
    name: str
    size: int
    mtime: int


class LogList(FlinkShape):
    logs: list[LogFile]


class LogUrl(FlinkShape):
    url: str


class ThreadText(FlinkShape):
    thread_name: str = Field(alias="threadName")
    stringified_thread_info: str = Field(alias="stringifiedThreadInfo")


class ThreadDump(FlinkShape):
    thread_infos: list[ThreadText] = Field(alias="threadInfos")


class ConfigurationEntry(FlinkShape):
    key: str
    value: str


class Configuration(RootModel[list[ConfigurationEntry]]):
    """Settings by name."""


class VirtualMachine(FlinkShape):
    version: str
    arch: str
    options: list[str]


class PythonEnvironment(FlinkShape):
    jvm: VirtualMachine
    """Python, which runs the JobManager."""
    classpath: list[str]
