# Runs as process 1 of a container. Every line is "word what".
ldconfig -p | sed -nE 's/^\t(lib(cuda|nv|[^ ]*nvidia)[^ ]*\.so\.[^ ]*) .*/library \1/p'
# These need nothing but libc; libraries for graphics need X11, which this system does not have.
for name in libcuda.so.1 libnvidia-ml.so.1; do
  said=$(LD_PRELOAD=$name /usr/bin/true 2>&1) || said="${said:-exit code $?}"
  [ -z "$said" ] || echo "broken $name: $said"
done
for node in /dev/nvidia* /dev/nvidia-caps/*; do
  [ -c "$node" ] || continue
  said=$( (true <"$node") 2>&1) && said=ok
  echo "device $node: $said"
done
nvidia-smi
echo "smi $?"
