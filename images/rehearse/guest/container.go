package guest

import (
	"cmp"
	"context"
	_ "embed" // the runtime's configuration
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/driver-container/driver-container/images/rehearse/wire"
)

// Container describes a container to start: a privileged container of a pod with hostPID, on the
// host's network.
type Container struct {
	Image   string   // a name of Config.Images
	Layers  []string // folders in the guest, the upper first, instead of the image's disk
	Command []string // instead of the image's command
	Args    []string // after the command
	Env     []string // after the image's variables
	Name    string   // of the container; "" means "nvidia-driver-ctr"
	PodUID  string   // "" means a random one
	Mounts  []Mount
	// HostDev mounts the host's /dev into the container. Without it the container gets a copy of
	// the nodes that the host has at the start.
	HostDev bool
}

// Mount is a hostPath volume.
type Mount struct {
	Host     string // on the guest's host; a missing folder is made
	Guest    string // in the container
	ReadOnly bool
	Shared   bool // mounts appear on both sides: mountPropagation Bidirectional
	File     bool // a file instead of a folder
}

// The folders are those of containerd.
const (
	runcState = "/run/containerd/runc/k8s.io"
	snapshots = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots"
)

func bundleDir(id string) string {
	return "/run/containerd/io.containerd.runtime.v2.task/k8s.io/" + id
}

func terminationLog(pod, id string) string {
	return "/var/lib/kubelet/pods/" + pod + "/containers/termination-log-" + id[:12]
}

// runContainer makes what the mounts need, and the container's root where the host sees it, as
// kubelet and containerd do. The upper layer exists until the container is removed: a bind mount of
// the root works until then, and is stale afterwards. Standard input is runc's configuration.
const runContainer = `set -e
id=$1 bundle=$2 upper=$3 layers=$4 state=$5
shift 5
for mount; do
	path=${mount#?:}
	[ -e "$path" ] || case $mount in
	f:*) mkdir -p "${path%/*}" && : >"$path" ;;
	*) mkdir -p "$path" ;;
	esac
done
mkdir -p "$bundle/rootfs" "$upper/fs" "$upper/work"
cat >"$bundle/config.json"
mount -t overlay -o "lowerdir=$layers,upperdir=$upper/fs,workdir=$upper/work" overlay "$bundle/rootfs"
code=0
runc --root "$state" run --bundle "$bundle" --pid-file "$bundle/pid" "$id" || code=$?
umount -l "$bundle/rootfs"
exit $code`

// imageDir is where the guest has the disk of an image.
func imageDir(name string) string { return "/lab/images/" + name }

// StartContainer starts a container and returns when its first process runs.
func (g *Guest) StartContainer(ctx context.Context, c Container) (*Process, error) {
	image, found := g.config.Images[c.Image]
	if !found {
		return nil, fmt.Errorf("the guest has no image %q", c.Image)
	}
	id := newID()
	if c.PodUID == "" {
		h := newID()
		c.PodUID = strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:32]}, "-")
	}
	if len(c.Layers) == 0 {
		c.Layers = []string{imageDir(c.Image)}
	}
	c.Name = cmp.Or(c.Name, "nvidia-driver-ctr")
	termination := Mount{Host: terminationLog(c.PodUID, id), Guest: "/dev/termination-log", File: true}
	c.Mounts = append(slices.Clone(c.Mounts), termination)
	config, err := c.runtimeConfig(id, image)
	if err != nil {
		return nil, fmt.Errorf("container %s: %w", c.Name, err)
	}
	p, err := g.client.start(ctx, wire.Request{
		Process: id, Args: c.runArgs(id), Input: config, PIDFile: bundleDir(id) + "/pid",
	})
	if err != nil {
		return nil, fmt.Errorf("container %s: %w", c.Name, err)
	}
	p.pod = &c
	p.name = c.Name
	return p, nil
}

// runArgs calls runContainer.
func (c Container) runArgs(id string) []string {
	args := []string{
		"sh", "-c", runContainer, "sh",
		id, bundleDir(id), snapshots + "/" + id, strings.Join(c.Layers, ":"), runcState,
	}
	for _, m := range c.Mounts {
		kind := "d:"
		if m.File {
			kind = "f:"
		}
		args = append(args, kind+m.Host)
	}
	return args
}

// runtimeDefaults is what containerd asks of the OCI runtime for each privileged container. /dev is
// a copy of the host's device nodes, which the hook makes in the folder of its last argument.
//
//go:embed runtime.json
var runtimeDefaults []byte

// runtimeConfig returns the configuration of the OCI runtime.
func (c Container) runtimeConfig(id string, image Image) ([]byte, error) {
	s := &specs.Spec{}
	err := json.Unmarshal(runtimeDefaults, s)
	if err != nil {
		return nil, err
	}
	command := c.Command
	if len(command) == 0 {
		command = image.Command
	}
	s.Hostname = c.Name
	s.Process.Args = slices.Concat(command, c.Args)
	s.Process.Env = lastOfEach(slices.Concat(image.Env, []string{"HOME=/root"}, c.Env))
	s.Process.Capabilities.Effective = s.Process.Capabilities.Bounding
	s.Process.Capabilities.Permitted = s.Process.Capabilities.Bounding
	s.Linux.CgroupsPath = c.cgroup(id)
	copyDevices := &s.Hooks.CreateContainer[0]
	copyDevices.Args = append(copyDevices.Args, bundleDir(id))
	if c.HostDev {
		s.Hooks = nil
		s.Mounts = slices.DeleteFunc(s.Mounts, func(m specs.Mount) bool {
			return strings.HasPrefix(m.Destination, "/dev")
		})
		c.Mounts = slices.Insert(slices.Clone(c.Mounts), 0, Mount{Host: "/dev", Guest: "/dev"})
	}
	for _, m := range c.Mounts {
		propagation := "rprivate"
		if m.Shared {
			propagation = "rshared"
			s.Linux.RootfsPropagation = propagation // containerd asks for both
		}
		options := []string{"rbind", propagation}
		if m.ReadOnly {
			options = append(options, "ro")
		}
		mount := specs.Mount{Destination: m.Guest, Type: "bind", Source: m.Host, Options: options}
		s.Mounts = append(s.Mounts, mount)
	}
	return json.Marshal(s)
}

// cgroup returns where kubelet with the systemd driver puts a container of a burstable pod.
func (c Container) cgroup(id string) string {
	pod := "kubepods-burstable-pod" + strings.ReplaceAll(c.PodUID, "-", "_") + ".slice"
	return "/kubepods.slice/kubepods-burstable.slice/" + pod + "/cri-containerd-" + id + ".scope"
}

// lastOfEach keeps the last value of each variable, as container runtimes do: otherwise a process
// would use the first of two.
func lastOfEach(env []string) []string {
	var kept []string
	for i, e := range env {
		name, _, _ := strings.Cut(e, "=")
		if !slices.ContainsFunc(
			env[i+1:],
			func(later string) bool { return strings.HasPrefix(later, name+"=") },
		) {
			kept = append(kept, e)
		}
	}
	return kept
}
