package conformance

// StartupProbe is what the GPU Operator 26.7 makes the kubelet run in the image of a driver, `sh`
// with a file of a ConfigMap: the same programs in the same order, written for these tests. It
// makes the folder of the markers, and checks first the module, then the daemons' status if a
// status file exists, then nvidia-smi. Only then it writes the marker that the validator waits for.
// It exits 0 when the driver serves.
const StartupProbe = `set -eu
validations=/run/nvidia/validations
mkdir -p "$validations"
if [ ! -f /sys/module/nvidia/refcnt ]; then
  echo "module nvidia is not loaded"
  exit 1
fi
if [ -f "$validations/.driver-daemons-status" ] && [ "$(cat "$validations/.driver-daemons-status")" != Ready ]; then
  echo "the driver's daemons are not ready"
  exit 1
fi
if ! nvidia-smi; then
  echo "nvidia-smi failed"
  exit 1
fi
{
  echo "GDRCOPY_ENABLED: ${GDRCOPY_ENABLED:-false}"
  echo "GDS_ENABLED: ${GDS_ENABLED:-false}"
  echo "GPU_DIRECT_RDMA_ENABLED: ${GPU_DIRECT_RDMA_ENABLED:-false}"
} >"$validations/.driver-ctr-ready.tmp"
mv "$validations/.driver-ctr-ready.tmp" "$validations/.driver-ctr-ready"
`

// PreStop is what the operator runs before it stops the container.
const PreStop = `rm -f /run/nvidia/validations/.driver-ctr-ready /run/nvidia/validations/.driver-daemons-status`
