package journeys

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/cluster"
	"github.com/driver-container/driver-container/ci/lab/fakegpu"
	"github.com/driver-container/driver-container/node/status"
)

// least is the chart's release of the variant without privileges, in a namespace of its own.
type least struct {
	t *testing.T
	*cluster.Cluster
}

const leastSpace = "least"

// install installs or upgrades the release to a driver.
func (l least) install(driver string) {
	l.t.Helper()
	l.Helm(append([]string{"upgrade", "--install", "gpu", "../../../deploy/chart", "--namespace", leastSpace, "--create-namespace"}, l.values(driver)...)...)
}

func (l least) values(driver string) []string {
	repository, _ := l.ImageRef(driver)
	return []string{
		"--set", "image.repository=" + repository, "--set", "driver=" + driver, "--set", "os=debian12", "--set", "kernel=" + l.KernelRelease(),
		"--set", "precompiled.enabled=true", "--set", "precompiled.selectKernel=false", "--set", "leastPrivilege.enabled=true",
		"--set", "nfd.enabled=false", "--set", "metrics.enabled=false", "--set", "acceptLicense=true",
		"--set", "terminationGracePeriodSeconds=30",
	}
}

// ready waits until that driver serves and returns its pod.
func (l least) ready(driver string) corev1.Pod {
	l.t.Helper()
	_, tag := l.ImageRef(driver)
	pod := l.WaitDriver(cluster.RolloutLimit, tag)
	if loaded := l.Loaded(); loaded != driver {
		l.t.Errorf("%q is loaded, not %s", loaded, driver)
	}
	return pod
}

// wantLink checks that the driver root is a link to that driver's root, and that nothing is mounted for it.
func (l least) wantLink(driver string) {
	l.t.Helper()
	if to := strings.TrimSpace(l.Node("readlink /run/nvidia/driver")); !strings.HasPrefix(to, "/var/lib/nvidia-driver/roots/"+driver+"-") {
		l.t.Errorf("/run/nvidia/driver leads to %q", to)
	}
	if mounts := l.Node("grep -E ' (/run/nvidia|/var/lib/nvidia-driver)' /proc/self/mountinfo || true"); strings.TrimSpace(mounts) != "" {
		l.t.Errorf("mounts: %s", mounts)
	}
	if path := strings.TrimSpace(l.Node("cat /sys/module/firmware_class/parameters/path; ls -d /run/nvidia/driver/lib/firmware")); path != "/run/nvidia/driver/lib/firmware\n/run/nvidia/driver/lib/firmware" {
		l.t.Errorf("the kernel looks for firmware in %q", path)
	}
}

// consumer makes a pod like that of a device plugin: it waits for the driver, without privileges, and then
// has the driver root.
func (l least) consumer(name, library string) {
	l.t.Helper()
	repository, tag := l.ImageRef(cluster.Newer)
	l.Apply(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {terminationGracePeriodSeconds: 5,
		initContainers: [{name: wait, image: "%s:%s", command: [nvidia-driver, wait-ready],
			volumeMounts: [{name: run, mountPath: /run/nvidia, mountPropagation: HostToContainer}]}],
		containers: [{name: holder, image: "%s", args: [/driver-root/usr/lib/x86_64-linux-gnu/%s],
			volumeMounts: [{name: root, mountPath: /driver-root, mountPropagation: HostToContainer}]}],
		volumes: [{name: run, hostPath: {path: /run/nvidia, type: DirectoryOrCreate}}, {name: root, hostPath: {path: /run/nvidia/driver}}]}}`,
		name, repository, tag, cluster.HolderImage, library))
}

// user makes a pod that keeps a GPU's device files open, as a user who is not root.
func (l least) user(name string) {
	l.t.Helper()
	l.Apply(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {terminationGracePeriodSeconds: 5,
		containers: [{name: holder, image: "%s", args: [-wait, /dev/nvidiactl], securityContext: {privileged: true, runAsUser: 1000, runAsGroup: 1000},
			volumeMounts: [{name: dev, mountPath: /dev}]}], volumes: [{name: dev, hostPath: {path: /dev}}]}}`,
		name, cluster.HolderImage))
	l.Kubectl("wait", "--for=condition=Ready", "pod/"+name, "--timeout=3m")
}

// status waits until the node's status is as wanted.
func (l least) status(what string, wanted func(status.Snapshot) bool) status.Snapshot {
	l.t.Helper()
	var st status.Snapshot
	l.Wait(cluster.RolloutLimit, what, func() error {
		if st = l.Status(); !wanted(st) {
			text, err := json.Marshal(st)
			return fmt.Errorf("%s %w", text, err)
		}
		return nil
	})
	return st
}

// A driver without privileges: installed, used, upgraded, killed and removed.
func Test10LeastPrivilege(t *testing.T) {
	l := least{t, cluster.New(t)}
	l.StateTable()
	l.PlugGPU(t, fakegpu.T4)
	before := l.leavings()
	l.install(cluster.Older)
	l.consumer("early", "libcuda.so."+cluster.Older)
	pod := l.ready(cluster.Older)
	l.wantLink(cluster.Older)
	wantConfined(t, l, pod)
	l.Kubectl("wait", "--for=condition=Ready", "pod/early", "--timeout=3m")

	st := l.Status()
	if len(st.GPUs) != 1 || !st.GPUs[0].Works || !strings.Contains(strings.Join(st.Warnings, "\n"), "the GPUs are not asked") {
		t.Errorf("GPUs %+v, warnings %q", st.GPUs, st.Warnings)
	}
	assert.Containsf(t, l.Kubectl("exec", "-n", leastSpace, pod.Name, "--", "nvidia-driver", "status"), "the GPUs are not asked", "status")

	// An upgrade waits for the GPU's user, names the pod, and continues when the pod has ended. Pods that have
	// the older root keep it.
	l.user("training")
	l.install(cluster.Newer)
	st = l.status("the new driver waits for pod training", func(st status.Snapshot) bool {
		return st.State == status.Waiting && len(st.Holders) == 1 && st.Holders[0].PodName == "training"
	})
	t.Logf("waiting: %s", st.Reason)
	l.wantLink(cluster.Older)
	l.Kubectl("delete", "pod", "training")
	pod = l.ready(cluster.Newer)
	l.wantLink(cluster.Newer)
	if pods := append(l.Pods("-n", "default"), pod); cluster.Restarts(pods) != 0 {
		t.Errorf("restarts: %s", cluster.Summary(pods))
	}
	l.consumer("late", "libcuda.so."+cluster.Newer)
	l.Kubectl("wait", "--for=condition=Ready", "pod/late", "--timeout=3m")

	// A container whose processes are killed finds everything in place after its restart.
	l.Node(fmt.Sprintf("kill -9 $(cat /sys/fs/cgroup$(cut -d: -f3 </proc/%d/cgroup)/cgroup.procs)", l.Status().PID))
	l.Wait(cluster.RolloutLimit, "the container is started again and ready", func() error {
		list := l.DriverPods()
		if len(list) != 1 || cluster.Restarts(list) != 1 || !cluster.Ready(list[0]) {
			return fmt.Errorf("%s", cluster.Summary(list))
		}
		return nil
	})
	assert.Containsf(t, l.Logs(l.DriverPods()[0], "nvidia-driver-ctr"), "adopting it", "the second container does not adopt the driver")
	l.wantLink(cluster.Newer)

	l.Helm("uninstall", "gpu", "--namespace", leastSpace)
	l.WaitGone(cluster.RolloutLimit, "-n", leastSpace)
	if after := l.leavings(); after != before {
		t.Errorf("left on the node: %s\nbefore: %s", after, before)
	}
}

// leavings returns what a driver that has stopped must not leave on the node. The lock's file stays for ever,
// and stored roots stay for the next start.
func (l least) leavings() string {
	l.t.Helper()
	return l.Node(`ls -d /run/nvidia/driver /run/nvidia/driver-status.json /dev/nvidia* /run/nvidia/.driver* 2>/dev/null; grep -E '^nvidia' /proc/modules
		tr -d '\n\0' </sys/module/firmware_class/parameters/path; grep /run/nvidia /proc/self/mountinfo; true`)
}

// wantConfined checks that the kernel confines the container as the pod declares: the container has five
// capabilities and a filter of system calls, and may not open the device files that it makes.
func wantConfined(t *testing.T, l least, pod corev1.Pod) {
	t.Helper()
	for _, c := range pod.Spec.Containers {
		if s := c.SecurityContext; s == nil || s.Privileged == nil || *s.Privileged || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation {
			t.Errorf("container %s: %+v", c.Name, c.SecurityContext)
		}
	}
	const five = "0000000408090004" // SYSLOG, MKNOD, SYS_PTRACE, SYS_MODULE, DAC_READ_SEARCH
	out := l.Node(fmt.Sprintf("grep -E '^(CapEff|CapBnd|CapPrm|Seccomp|NoNewPrivs):' /proc/%d/status", l.Status().PID))
	for _, line := range []string{"CapPrm:\t" + five, "CapEff:\t" + five, "CapBnd:\t" + five, "NoNewPrivs:\t1", "Seccomp:\t2"} {
		assert.Containsf(t, out, line+"\n", "not %q", line)
	}
	if out, err := l.TryKubectl("exec", "-n", pod.Namespace, pod.Name, "--", "dd", "if=/dev/nvidiactl", "count=0"); err == nil {
		t.Errorf("the container may open device files: %s", out)
	}
}
