package kmod

import (
	"strings"
	"testing"
)

const (
	testID     = "3f2a41c09b7d3f2a41c09b7d3f2a41c09b7d3f2a41c09b7d3f2a41c09b7d0123"
	testID2    = "bbbb41c09b7d3f2a41c09b7d3f2a41c09b7d3f2a41c09b7d3f2a41c09b7d0123"
	testUID    = "9c1d2e3f-0a1b-4c2d-8e3f-0123456789ab"
	systemdUID = "9c1d2e3f_0a1b_4c2d_8e3f_0123456789ab"
	static     = "7d2c5b5e1cbb6a1b6a3a4aebb2a0e8d6" // the uid of a static pod is a digest
)

func TestParseCgroup(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{
		"":     {},
		"0::/": {},
		"junk": {},
		"0::/user.slice/user-0.slice/session-1.scope": {},
		// cgroup v2
		"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + systemdUID + ".slice/cri-containerd-" + testID + ".scope": {testID, testUID},
		"0::/kubepods.slice/kubepods-pod" + systemdUID + ".slice/crio-" + testID + ".scope/container":                                    {testID, testUID},
		"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + static + ".slice/cri-containerd-" + testID + ".scope":   {testID, static},
		"0::/kubepods/burstable/pod" + testUID + "/" + testID:                                                                            {testID, testUID},
		"0::/kubepods/pod" + testUID + "/" + testID + "/system.slice/ssh.service":                                                        {testID, testUID},
		"0::/../../kubepods-besteffort-pod" + systemdUID + ".slice/cri-containerd-" + testID + ".scope":                                  {testID, testUID},
		"0::/../cri-containerd-" + testID + ".scope":                                                                                     {testID, ""},
		"0::/system.slice/containerd.service/kubepods-burstable-pod" + systemdUID + ".slice:cri-containerd:" + testID:                    {testID, testUID},
		"0::/kubepods.slice/kubepods-pod" + systemdUID + ".slice":                                                                        {"", testUID},
		"0::/system.slice/docker-" + testID + ".scope":                                                                                   {testID, ""},
		"0::/machine.slice/libpod-" + testID + ".scope/container":                                                                        {testID, ""},
		"0::/k8s.io/" + testID: {testID, ""},
		"0::/docker/" + testID2 + "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + systemdUID + ".slice/cri-containerd-" + testID + ".scope": {testID, testUID},
		"0::/docker/" + testID2 + "/kubelet/kubepods/besteffort/pod" + testUID + "/" + testID:                                                              {testID, testUID},
		// cgroup v1, and both at once
		"12:pids:/kubepods/burstable/pod" + testUID + "/" + testID + "\n1:name=systemd:/kubepods/burstable/pod" + testUID + "/" + testID + "\n0::/": {testID, testUID},
		"11:devices:/docker/" + testID + "\n10:cpu,cpuacct:/docker/" + testID:                                                                       {testID, ""},
		"9:name=systemd:/\n4:memory:/kubepods.slice/kubepods-pod" + systemdUID + ".slice/docker-" + testID + ".scope":                               {testID, testUID},
		// paths that only look like those of a container or pod
		"0::/kubepods/podcast/" + testID[:63]:                                         {},
		"0::/kubepods/pod" + strings.ToUpper(testUID) + "/" + strings.ToUpper(testID): {},
		"0::/kubepods/pod9c1d2e3f-0a1b-4c2d-8e3f0-123456789ab/x":                      {},
		"0::/a-podium.slice/b":                                                        {},
	} {
		if c, p := parseCgroup(text); c != want[0] || p != want[1] {
			t.Errorf("parseCgroup(%q) = %q, %q; want %q", text, c, p, want)
		}
	}
}

func FuzzCgroup(f *testing.F) {
	f.Add("0::/kubepods.slice/kubepods-pod" + systemdUID + ".slice/crio-" + testID + ".scope/container")
	f.Add("12:pids:/kubepods/burstable/pod" + testUID + "/" + testID + "\n1:name=systemd:/")
	f.Add("0::/system.slice/containerd.service/kubepods-burstable-pod" + systemdUID + ".slice:cri-containerd:" + testID)
	const hex = "0123456789abcdef"
	f.Fuzz(func(t *testing.T, text string) {
		c, p := parseCgroup(text)
		if c != "" && (len(c) != 64 || strings.Trim(c, hex) != "" || !strings.Contains(text, c)) {
			t.Errorf("container %q", c)
		}
		if p != "" && (len(p) != 36 && len(p) != 32 || strings.Trim(strings.ReplaceAll(p, "-", ""), hex) != "") {
			t.Errorf("pod %q", p)
		}
	})
}
