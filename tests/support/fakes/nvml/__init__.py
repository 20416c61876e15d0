"""A ``libnvidia-ml.so.1`` made for tests: real NVML symbols over a world that a scenario file describes.

``library.driver(scenario)`` compiles it once and gives the variables of a process that is to see it (the
library is found by name, so it has to be a new process).
``scenario.Scenario`` writes scenario files and changes them while the process runs. A scenario by hand:

    # Lines before the first gpu are about the driver.
    driver 570.86.15
    start 1700000000.0            # Unix seconds at which signals begin; else when the library is loaded
    clock wall                    # of buffered samples: wall, boot, or seconds added to the wall clock
    enumerate init                # GPUs are counted at nvmlInit, as the driver does; or live
    error nvmlInitWithFlags DRIVER_NOT_LOADED until=5
    delay nvmlDeviceGetPowerUsage 365     # microseconds that a call takes; those of one device one by one
    wait sleep                    # how: asleep, or on a CPU (spin), as drivers that wait for the GSP do

    gpu GPU-11111111-2222-3333-4444-555555555555
      name NVIDIA H200
      util square(10,0.4,5,95)    # period s, share of it high, low, high
      mem_util sine(20,0,60)      # period s, low, high
      mem_used ramp(1e9,1e6)      # at the start, more each second
      power_w 612.5
      error nvmlDeviceGetPowerUsage NOT_SUPPORTED from=3 until=9
      error field:197 NOT_SUPPORTED
      error gpm:60 NOT_SUPPORTED
      process 4711 mem=1e9 util=95 mem_util=40 kind=both from=0 until=60
      event 79 at=3.0             # an Xid, told once to each event set that was there before; type=, gi=, ci=
      counter 2 95                # one of GPM's metrics by its number: percent, or MiB a second
      field 230 2                 # one of NVML's fields, such as a counter of health; scope=, type=
      mig_mode 1
      mig 0 uuid=MIG-1 gi=1 ci=0 profile=1g.18gb mem_total=18e9 mem_used=1e9 util=40 counter:2=35

A number is a signal that never changes. Further keys of a GPU: mem_total, mem_reserved, power_limit_w,
energy_j (else the integral of power_w), temp_c, slowdown_c, sm_mhz, mem_mhz, pcie_rx and pcie_tx (bytes/s),
pcie_gen, pcie_width, mem_temp_c, enc, dec, jpg and ofa (percent), throttle (the mask), gpm (0: before
Hopper), util_hz, power_hz, process_hz, ring (samples kept), pcie_bits (32: a counter that wraps), idle_dry
(0: an idle GPU is sampled, too), serial, bus_id, ecc and persistence (0, 1), ecc_sram (of what fields 4 and 6
count), banks_low and banks_none (of the row remapper), compute_mode, event_types (the mask), fabric_state
(0: none, 3: completed), fabric_health (the mask), fabric_summary, fabric_version (2: no summary).
``*`` as the function of an error means all of them, of a delay all others.
"""
