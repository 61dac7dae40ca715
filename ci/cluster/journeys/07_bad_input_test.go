package journeys

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/cluster"
	"github.com/driver-container/driver-container/node/status"
)

// other returns a release of the same length as the node's, so that it can replace the node's in modules.
func other(release string) string { return "9" + release[1:] }

// Mistakes of cluster administrators: a kernel without an image, an image with modules for another kernel, a
// namespace that allows no privileged pods. kubectl names the cause each time, and the node does not change
// until the mistake is corrected.
func Test07BadInput(t *testing.T) {
	c, _ := withGPU(t)
	repository, tag := c.ImageRef(cluster.Newer)

	otherKernel := other(c.KernelRelease())
	wanted := cluster.Newer + "-" + otherKernel + "-debian12"
	notes := helmInstall(t, c, "nvidia-driver", cluster.Newer, "--set-string", "image.tag="+cluster.Newer, "--set", "os=debian12",
		"--set", "precompiled.enabled=true", "--set", "precompiled.selectKernel=false", "--set", "kernel="+otherKernel)
	if !strings.Contains(notes, wanted) || !strings.Contains(notes, "ErrImagePull: no image for the kernel") {
		t.Errorf("the notes do not name the tag %s, or not what its absence means: %s", wanted, notes)
	}
	waitReason(c, wanted, "ErrImagePull", "ImagePullBackOff")
	c.Wait(time.Minute, "an Event names the missing tag", func() error {
		for _, e := range c.Events() {
			if e.InvolvedObject.Kind == "Pod" && e.Reason == "Failed" && strings.Contains(e.Message, wanted) && strings.Contains(e.Message, "not found") {
				return nil
			}
		}
		return errors.New("there is none")
	})
	if out := helmUpgrade(t, c, "nvidia-driver", cluster.Newer, "--set-string", "image.tag=latest", "--dry-run=client"); !strings.Contains(out, `WARNING: `) || !strings.Contains(out, `"latest"`) {
		t.Errorf("no warning of the tag latest: %s", out)
	}

	otherImage(t, c, repository+":"+tag)
	helmUpgrade(t, c, "nvidia-driver", cluster.Newer, "--set-json", `extraVolumes=[{"name":"other","hostPath":{"path":"/srv/other","type":"Directory"}}]`,
		"--set-json", `extraVolumeMounts=[{"name":"other","mountPath":"/usr/share/nvidia-driver"}]`)
	var reason string
	c.Wait(startWait, "the container waits because the image is for another kernel", func() error {
		st := c.Status()
		if reason = st.Reason; st.State == status.Waiting && st.WaitsFor == status.ForPreflight {
			return nil
		}
		return fmt.Errorf("state %q; %s", st.State, cluster.Summary(c.DriverPods()))
	})
	for _, want := range []string{"this image has modules for kernels " + otherKernel, "this node runs " + c.KernelRelease(), "driver-build --kernel"} {
		assert.Containsf(t, reason, want, "the status does not say")
	}
	if out := c.Node("cat /proc/modules | grep ^nvidia; grep ' /run/nvidia/' /proc/mounts; ls /dev | grep nvidia; true"); out != "" {
		t.Errorf("the node was touched: %s", out)
	}

	// The right tag ends the problem.
	helmUpgrade(t, c, "nvidia-driver", cluster.Newer)
	waitServing(t, c, cluster.Newer)
	uninstall(c, "nvidia-driver")
	c.WaitGone(stopWait, "-A", "-l", "app.kubernetes.io/component=nvidia-driver")
	c.Kubectl("delete", "namespace", namespace)

	c.Kubectl("create", "namespace", namespace)
	c.Kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=baseline")
	notes = helmInstall(t, c, "nvidia-driver", cluster.Newer)
	if !strings.Contains(notes, "kubectl label namespace "+namespace+" pod-security.kubernetes.io/enforce=privileged") {
		t.Errorf("the notes do not say what to do about pod security: %s", notes)
	}
	waitEvent(t, c, "DaemonSet", "nvidia-driver", "FailedCreate", `violates PodSecurity "baseline`, "privileged")
	if pods := c.DriverPods(); len(pods) != 0 {
		t.Errorf("there are pods: %s", cluster.Summary(pods))
	}
	c.Kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=privileged", "--overwrite")
	waitServing(t, c, cluster.Newer)
	noRestarts(t, c)
}

// waitReason waits until the driver's container waits for one of these reasons, with a message that contains
// the words.
func waitReason(c *cluster.Cluster, words string, reasons ...string) {
	c.Wait(startWait, fmt.Sprintf("a driver pod that waits: %q, %s", reasons, words), func() error {
		for _, p := range c.DriverPods() {
			for _, s := range p.Status.ContainerStatuses {
				for _, r := range reasons {
					if w := s.State.Waiting; w != nil && w.Reason == r && strings.Contains(w.Message, words) {
						return nil
					}
				}
			}
		}
		return errors.New(cluster.Summary(c.DriverPods()))
	})
}

// otherImage writes an image's label and modules to /srv/other on the node, as if they were for another
// kernel.
func otherImage(t *testing.T, c *cluster.Cluster, image string) {
	t.Helper()
	c.Node(fmt.Sprintf(`set -e
		mkdir -p /srv/image && ctr -n k8s.io images mount %[1]s /srv/image >/dev/null
		cp -a /srv/image/usr/share/nvidia-driver /srv/other
		ctr -n k8s.io images unmount /srv/image && ctr -n k8s.io snapshots remove /srv/image
		cd /srv/other
		grep -rlF '%[2]s' . | xargs sed -i 's/%[2]s/%[3]s/g'
		find . -depth -name '*%[2]s*' | while read -r path; do mv "$path" "${path//%[2]s/%[3]s}"; done
		grep -q %[3]s driver.json`, image, c.KernelRelease(), other(c.KernelRelease())))
}
