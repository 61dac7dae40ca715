package conformance

// StartupProbe is what the GPU operator makes the kubelet run in the image of a driver, `sh` with a file of a
// ConfigMap: the same programs in the same order, written for these tests. It checks first the module, then
// the daemons' status if a status file exists, then nvidia-smi. Only then it writes the marker that the
// validator waits for. It exits 0 when the driver serves.
const StartupProbe = `validations=/run/nvidia/validations
if [ ! -f /sys/module/nvidia/refcnt ]; then
  echo "module nvidia is not loaded"
  exit 1
fi
if [ -f $validations/.driver-daemons-status ] && [ "$(cat $validations/.driver-daemons-status)" != Ready ]; then
  echo "the driver's daemons are not ready"
  exit 1
fi
nvidia-smi || { echo "nvidia-smi failed"; exit 1; }
mkdir -p $validations
cat >$validations/.driver-ctr-ready.new <<END
GDRCOPY_ENABLED: ${GDRCOPY_ENABLED:-false}
GDS_ENABLED: ${GDS_ENABLED:-false}
GPU_DIRECT_RDMA_ENABLED: ${GPU_DIRECT_RDMA_ENABLED:-false}
END
mv $validations/.driver-ctr-ready.new $validations/.driver-ctr-ready
`

// PreStop is what the operator runs before it stops the container.
const PreStop = `rm -f /run/nvidia/validations/.driver-ctr-ready /run/nvidia/validations/.driver-daemons-status`
