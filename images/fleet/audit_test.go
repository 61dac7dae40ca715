package fleet_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/fleet"
)

// TestAuditRecorded audits the recorded clusters.
func TestAuditRecorded(t *testing.T) {
	t.Parallel()
	rowsOf := map[string][]fleet.AuditRow{}
	for _, name := range []string{"eks.json", "gke.json", "aks.json", "openshift.json", "kubeadm.json", "devices.json", "joined.json", "hosts.txt"} {
		all := read(t, name)
		audit := fleet.NewAudit(rows(t), all, fleet.Options{Advisor: advisor}, []string{"--repository", "registry.example.com/gpu/driver"})
		rowsOf[name] = audit.Groups
		count := audit.NoGPU
		for _, row := range audit.Groups {
			count += len(row.Nodes)
			assert.Equalf(t, row.Exposure != nil, len(audit.Vulnerabilities[row.Driver]) > 0, "%s: CVEs of %s", name, row.Driver)
		}
		assert.Equalf(t, len(all), count, "%s: nodes", name)
	}
	text := require.Value(json.MarshalIndent(rowsOf, "", "  "))(t)
	goldentest.Compare(t, "testdata/golden/audit.json", string(text)+"\n")
}

// auditNode is a node of Ubuntu 22.04 with a T4, with labels and conditions more.
func auditNode(name, labels, conditions string) string {
	return `{"metadata": {"name": "` + name + `", "labels": {"kubernetes.io/arch": "amd64", "feature.node.kubernetes.io/pci-0302_10de_1eb8.present": "true",
		"feature.node.kubernetes.io/pci-10de.present": "true"` + labels + `}}, "status": {"conditions": [` + conditions + `],
		"nodeInfo": {"architecture": "amd64", "kernelVersion": "5.15.0-122-generic", "osImage": "Ubuntu 22.04.5 LTS"}}}`
}

// TestAuditSources: each source of the running driver counts, also on nodes whose driver is not ours, and a
// text that is no version is named.
func TestAuditSources(t *testing.T) {
	t.Parallel()
	ready := `{"type": "NVIDIADriverReady", "status": "True", "message": "driver 580.126.09 (open modules) serves kernel 5.15.0-122-generic, 1 of 1 GPUs work; the start took 2s"}`
	for _, c := range []struct{ labels, conditions, want string }{
		{`, "nvidia.com/driver.version.full": "580.178.04"`, ready, "580.178.04 nvidia.com/driver.version.full [] 595.91.07"},
		{"", ready, "580.126.09 condition NVIDIADriverReady [vulnerable] 595.91.07"},
		{"", `{"type": "NVIDIADriverReady", "message": "phase modules"}, {"type": "Ready", "message": "driver 1.2 (x)"}`, "  [unknown] 595.91.07"},
		{`, "nvidia.com/cuda.driver.major": "535", "nvidia.com/cuda.driver.minor": "261", "nvidia.com/cuda.driver.rev": "03"`, "", "535.261.03 nvidia.com/cuda.driver.major, minor, rev [end-of-life vulnerable] 595.91.07"},
		{`, "nvidia.com/gpu.deploy.driver": "pre-installed", "nvidia.com/cuda.driver-version.full": "580.95.05"`, "", "580.95.05 nvidia.com/cuda.driver-version.full [vulnerable] 595.91.07 host-driver"},
		{`, "cloud.google.com/gke-gpu-driver-version": "default", "nvidia.com/cuda.driver-version.full": "570.211.01"`, "", "570.211.01 nvidia.com/cuda.driver-version.full [end-of-life vulnerable] 595.91.07 managed-driver"},
		{`, "nvidia.com/driver.version.full": "none-of-these"`, "", " nvidia.com/driver.version.full=none-of-these is no driver version [unknown] 595.91.07"},
		{`, "nvidia.com/driver.version.full": "595.91.07"`, "", "595.91.07 nvidia.com/driver.version.full [] 595.91.07"},
	} {
		audit := fleet.NewAudit(rows(t), parse(t, []string{auditNode("one", c.labels, c.conditions)}), fleet.Options{Advisor: advisor}, nil)
		assert.Equal(t, 1, len(audit.Groups))
		r := audit.Groups[0]
		got := strings.TrimSuffix(fmt.Sprintf("%s %s %v %s %s", r.Driver, r.Source, r.Findings, r.Recommend, r.Code), " ")
		assert.Equal(t, c.want, got)
	}
	host := "host a 5.15.0-122-generic x86_64\nID=ubuntu\nVERSION_ID=\"22.04\"\n01:00.0 0302: 10de:1eb8 (rev a1)\n" +
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.261.03  Thu Jun  5 22:10:06 UTC 2025\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\nend\n"
	n := require.Value(fleet.ReadNodes(strings.NewReader(host)))(t)[0]
	version, source := n.Running()
	assert.Equal(t, "535.261.03 /proc/driver/nvidia/version", version+" "+source)
}

// TestAuditFail: a finding is an error of its own kind, and a score is a bound.
func TestAuditFail(t *testing.T) {
	t.Parallel()
	nodes := parse(t, []string{
		auditNode("a", `, "nvidia.com/driver.version.full": "595.84"`, ""), auditNode("b", `, "nvidia.com/driver.version.full": "535.261.03"`, ""),
		auditNode("c", `, "nvidia.com/driver.version.full": "580.178.04"`, ""), auditNode("d", "", ""),
	})
	audit := fleet.NewAudit(rows(t), nodes, fleet.Options{Advisor: advisor}, nil)
	for kinds, want := range map[string]string{
		"vulnerable":                     "2 (vulnerable 2)",
		"vulnerable=8.8":                 "1 (vulnerable=8.8 1)",
		"vulnerable=8.9":                 "",
		"known-bad":                      "",
		"unknown,end-of-life,vulnerable": "3 (end-of-life 1, unknown 1, vulnerable 2)",
	} {
		err := audit.Fail(strings.Split(kinds, ","))
		if want == "" {
			assert.NoErrorf(t, err, "%s", kinds)
			continue
		}
		assert.ErrorContains(t, err, want)
		assert.Equal(t, failure.Exposed, failure.KindOf(err))
	}
	assert.NoError(t, fleet.CheckFinding("vulnerable=7.5"))
	assert.Errorf(t, fleet.CheckFinding("kernel-broken"), "no finding")
}

// TestAuditOrder: the audit is the same for the same nodes in any order, and each node is in one row or has no
// GPU.
func TestAuditOrder(t *testing.T) {
	t.Parallel()
	all := slices.Concat(read(t, "openshift.json"), read(t, "eks.json"))
	m := rows(t)
	text := func(audit *fleet.Audit) string { return string(require.Value(json.Marshal(audit.Groups))(t)) }
	want := text(fleet.NewAudit(m, all, fleet.Options{Advisor: advisor}, nil))
	var indices []int
	for i := range all {
		indices = append(indices, i)
	}
	rapid.Check(t, func(t *rapid.T) {
		order := rapid.Permutation(indices).Draw(t, "order")
		var turned []fleet.Node
		for _, i := range order {
			turned = append(turned, all[i])
		}
		assert.Equal(t, want, text(fleet.NewAudit(m, turned, fleet.Options{Advisor: advisor}, nil)))
	})
}

// BenchmarkAudit audits 10,000 nodes of all kinds.
func BenchmarkAudit(b *testing.B) {
	some := slices.Concat(read(b, "kubeadm.json"), read(b, "openshift.json"), read(b, "eks.json"))
	var all []fleet.Node
	for i := range 10_000 {
		n := some[i%len(some)]
		n.Name = fmt.Sprintf("node-%05d", i)
		all = append(all, n)
	}
	m := rows(b)
	for b.Loop() {
		fleet.NewAudit(m, all, fleet.Options{Advisor: advisor}, nil)
	}
}
