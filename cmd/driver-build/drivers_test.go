package main

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/commandtest"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/gpus"
	"github.com/driver-container/driver-container/images/releases"
	"github.com/driver-container/driver-container/images/status"
)

// freshReleases is a releases.json with a release that no table has.
const freshReleases = `{"535": {"type": "lts branch", "driver_info": [{"release_version": "535.400.01", "release_date": "2026-05-12",
  "runfile_url": {"x86_64": "URL/tesla/535.400.01/NVIDIA-Linux-x86_64-535.400.01.run"}}, {"release_version": "nonsense"}]}}`

func (u *user) file(t *testing.T, name, text string) string {
	t.Helper()
	return testfile.Write(t, u.Path(name), text)
}

func TestDrivers(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	r := u.on("2026-07-01").tool(t, "drivers --releases none").Want(t, 0)
	goldentest.Compare(t, "testdata/drivers.table", r.Stdout)
	assert.Equalf(t, "", r.Stderr, "stderr")
	u.tool(t, "drivers r535 418.87.01 --releases none").Want(t, 2, `no branch "r535" is known: did you mean R535`)
	goldentest.Compare(t, "testdata/drivers-R396.table", u.tool(t, "drivers R396 396.1 --releases none").Want(t, 0).Stdout)

	r = u.on("2026-06-30").tool(t, "drivers -o json --releases "+u.file(t, "releases.json", freshReleases))
	r.Want(t, 0, "note: ", `left out an entry of R535: "nonsense" is no driver version`)
	for _, b := range commandtest.Items[releases.Coverage](t, r, "drivers.schema.json") {
		if b.Name == "R535" && (b.Newest != "535.400.01" || b.Date != "2026-05-12" || b.Over || !b.Lags || b.Matrix[0] != newDriver) {
			t.Errorf("%+v", b)
		}
	}
	u.Put("/releases.json", []byte(strings.ReplaceAll(freshReleases, "URL", u.URL)))
	r = u.tool(t, "drivers --lagging --releases "+u.URL+"/releases.json")
	r.Want(t, 3, "the matrix lags behind: R535 has 535.261.03, newest is 535.400.01, R418 has 418.87.01, newest is 418.226.00")
	assert.Equalf(t, 3, strings.Count(r.Stdout, "\n"), "%v", r.Stdout)
	// Without a network the last list is used, or else the built-in table; a list that was asked for must be
	// readable.
	u.tool(t, "--offline drivers").Want(t, 0, "note: NVIDIA's list of releases could not be read, the built-in table is used")
	u.tool(t, "--offline drivers --releases "+u.URL+"/other.json").Want(t, 4, "--releases", "other.json")
	u.Put("/wrong.json", []byte("<html>"))
	u.tool(t, "drivers --releases "+u.URL+"/wrong.json").Want(t, 2, "no list of releases as NVIDIA publishes it")
	// Nothing lags that has ended either.
	assert.Contains(t, u.on("2027-01-15").tool(t, "drivers R570 --releases none -o json").Stdout, `"over": true`)
}

// gpuNode writes a list with a node that has a GPU and labels.
func gpuNode(t *testing.T, device, labels string) string {
	t.Helper()
	return testfile.Write(t, t.TempDir()+"/node.json", `{"kind": "List", "items": [{"metadata": {"name": "a", "labels": {"kubernetes.io/arch": "amd64",
		"feature.node.kubernetes.io/system-os_release.ID": "ubuntu", "feature.node.kubernetes.io/system-os_release.VERSION_ID": "22.04", `+labels+`
		"feature.node.kubernetes.io/pci-0302_10de.present": "true", "feature.node.kubernetes.io/pci-0302_10de_`+device+`.present": "true"}},
		"status": {"nodeInfo": {"architecture": "amd64", "kernelVersion": "5.15.0-122-generic", "osImage": "Ubuntu 22.04.5 LTS"}}}]}`)
}

// TestOneRecommendation: list, drivers, gpus and fleet name the same driver, and the same one with long-term
// support, for a T4 and for an H100 with NVLink switches; --driver with a branch means its newest.
func TestOneRecommendation(t *testing.T) {
	t.Parallel()
	run := func(args ...string) result { return call(t.Context(), t, nil, args...).Want(t, 0) }
	ofOthers := map[string]string{"1eb8": "recommended with NVLink switches", "2330": "(not with NVLink switches)"}
	for device, other := range ofOthers {
		gpu := commandtest.Items[gpus.Answer](t, run("gpus", device, "-o", "json"), "gpus.schema.json")[0]
		want := []string{gpu.LongTerm, gpu.Driver}
		var listed, known []string
		for _, p := range commandtest.Items[status.Pair](t, run("list", "--os", "ubuntu22.04", "--arch", "amd64", "-o", "json"), "list.schema.json") {
			if p.Recommended != "" && !strings.Contains(p.Recommended, other) {
				listed = append(listed, p.Driver)
			}
		}
		for _, b := range commandtest.Items[releases.Coverage](t, run("drivers", "--releases", "none", "-o", "json"), "drivers.schema.json") {
			for _, r := range b.Releases {
				if r.Recommended != "" && !strings.Contains(r.Recommended, other) {
					known = append([]string{r.Version}, known...) // the newest branch is first
				}
			}
		}
		assert.Samef(t, want, listed, "%s: list and gpus", device)
		assert.Samef(t, want, known, "%s: drivers and gpus", device)
		assert.Contains(t, run("fleet", gpuNode(t, device, ""), "-o", "json").Stdout, `"driver": "`+gpu.Driver+`"`)
	}

	node := gpuNode(t, "1eb8", "")
	gpu := commandtest.Items[gpus.Answer](t, run("gpus", "1eb8", "-o", "json"), "gpus.schema.json")[0]
	branch, _, _ := strings.Cut(gpu.LongTerm, ".")
	for _, args := range [][]string{{"fleet", node}, {"list", "--os", "ubuntu22.04"}, {"plan", "--os", "ubuntu22.04"}, {"matrix", "init", "--os", "ubuntu22.04", "--output", t.TempDir()}} {
		for _, name := range []string{branch, "R" + branch} {
			r := call(t.Context(), t, nil, append(args, "--driver", name)...)
			assert.Contains(t, r.Stderr, "note: --driver "+name+" means "+gpu.LongTerm+", the newest of its branch in the matrix")
		}
	}
}

// TestDenyNodes: an advisory about some nodes is denied where such a node gets its driver, and nowhere else.
func TestDenyNodes(t *testing.T) {
	t.Parallel()
	fleet := func(node string, args ...string) result {
		env := map[string]string{commandtest.Day: "2026-11-29"}
		return call(t.Context(), t, env, append([]string{"fleet", node, "--deny", "known-bad"}, args...)...)
	}
	other := gpuNode(t, "1eb8", "")
	named := []string{"--driver", "595.91.07"}
	fleet(other).Want(t, 0)
	assert.Equal(t, false, strings.Contains(fleet(other, named...).Want(t, 0).Stderr, "P6e"))
	p6e := gpuNode(t, "2941", `"node.kubernetes.io/instance-type": "p6e-gb200.36xlarge",`)
	assert.Contains(t, fleet(p6e).Want(t, 0).Stdout, "580.178.04-ubuntu22.04")
	fleet(p6e, named...).Want(t, session.ExitSome, "known to be bad: AWS P6e nodes", "--deny: there are warnings: 1 of kind known-bad")
}

func TestGPUs(t *testing.T) {
	t.Parallel()
	r := call(t.Context(), t, nil, "gpus").Want(t, 0)
	for _, word := range []string{"Blackwell", "Turing", "390.157", "R367", "LTS until 2028-06"} {
		assert.Contains(t, r.Stdout, word)
	}
	r = call(t.Context(), t, nil, "gpus", "1eb8", "Tesla K80", "10de:fffe", "tesla t4").Want(t, 0)
	for _, line := range []string{"10de:1eb8  Tesla T4     Turing", "10de:102d  Tesla K80    Kepler      470.256.02  over since 2024-07", "10de:fffe  unknown GPU  unknown"} {
		assert.Contains(t, r.Stdout, line)
	}
	assert.Contains(t, r.Stderr, "warning: 10de:fffe is not in the list, so it is taken for a new GPU")
	assert.Equalf(t, 4, strings.Count(r.Stdout, "\n"), "lines; a GPU that was named twice is there once:\n%s", r.Stdout)
	assert.Contains(t, call(t.Context(), t, nil, "gpus", "V100", "-o", "json").Want(t, 0).Stdout, `"lastBranch": "R580"`)
	assert.Contains(t, call(t.Context(), t, nil, "gpus", "--node-feature-rules").Want(t, 0).Stdout, "apiVersion: nfd.k8s-sigs.io/v1alpha1")
}

// faulty is an advisory about the newer driver of the tests.
const faulty = `
advisories:
  - id: test-1
    kind: known-bad
    drivers: [535.261.03, 570.124.06]
    affects: nodes with MIG
    reason: pods stay Pending
    fixed: 580.1
    source: https://example.com/1
`

// TestCUDA: which drivers run a release of CUDA, in each command that says so.
func TestCUDA(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	r := u.tool(t, "list --os ubuntu16.04 --cuda 12.8")
	r.Want(t, 0, "note: CUDA 12.8 needs driver 525.60.13 or newer, or the package cuda-compat-12-8 in the application's image, on data center GPUs only; "+
		"from 570.86.10 on nothing is missing, below minor-version means that the driver compiles no PTX of 12.8")
	assert.Contains(t, r.Stdout, "CUDA           CVES")
	supports := map[string]releases.CUDASupport{oldDriver: releases.CUDANone, newDriver: releases.CUDAMinor}
	for _, p := range commandtest.Items[status.Pair](t, u.tool(t, "list -o json --cuda 12.8"), "list.schema.json") {
		assert.Equalf(t, supports[p.Driver], p.Runs.Support, "%s", p.Driver)
	}
	for _, p := range commandtest.Items[status.Pair](t, u.tool(t, "list -o json --cuda 10.1"), "list.schema.json") {
		assert.Equalf(t, releases.CUDANative, p.Runs.Support, "%s", p.Driver)
	}
	for _, b := range commandtest.Items[releases.Coverage](t, u.tool(t, "drivers --releases none -o json --cuda 13.0"), "drivers.schema.json") {
		want := map[string]string{"R535": "none", "R580": "native", "R610": "native", "R418": "none"}[b.Name]
		assert.Equalf(t, true, want == "" || want == b.RunsCUDA, "%s: %s", b.Name, b.RunsCUDA)
	}
	assert.Contains(t, u.tool(t, "drivers R570 --releases none --cuda 12.8").Stdout, "RUNS IT")

	// A release that only the matrix states, and a driver whose entry states another than the table.
	stated := u.file(t, "stated.yaml", strings.Replace(u.Matrix(), "version: "+newDriver, "cuda: 13.9\n    version: "+newDriver, 1))
	r = u.Run(t, "list", "--matrix", stated, "--os", "ubuntu16.04", "--driver", newDriver, "--cuda", "13.9").Want(t, 0, "CUDA 13.9 needs driver 580.65.06 or newer")
	assert.Contains(t, r.Stdout, "native")

	u.tool(t, "plan --cuda 13.0 --repository h.example/a").Want(t, 2, "--cuda 13.0: no driver of the selection runs it: it needs 580.65.06 or newer")
}

// TestAdvisories: what is known of drivers is printed, and --deny makes it an error.
func TestAdvisories(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	file := u.file(t, "faulty.yaml", u.Matrix()+faulty)
	tool := func(day, args string) result {
		t.Helper()
		return u.on(day).Run(t, strings.Fields(strings.Replace(args, "MATRIX", "--matrix "+file, 1))...)
	}
	const fault = "warning: driver 535.261.03 is known to be bad: nodes with MIG: pods stay Pending; fixed in 580.1 (https://example.com/1)"
	tool("2026-06-30", "list MATRIX").Want(t, 0, fault, "warning: NVIDIA no longer supports the branches of 418.87.01 (2022-03)\n",
		"note: NVIDIA's support ends soon for the branches of 535.261.03 (2026-06)")
	tool("2026-07-01", "list MATRIX").Want(t, 0, "warning: NVIDIA no longer supports the branches of 418.87.01 (2022-03), 535.261.03 (2026-06)")
	const vulnerable = "warning: by NVIDIA's bulletins, driver 535.261.03 (100 known CVEs up to 8.8, 18 fixed in 535.309.01, no fix will come for the others)\n"
	assert.Equal(t, fault+"\n"+vulnerable, tool("2025-01-01", "list MATRIX --driver "+newDriver).Stderr)
	for _, p := range commandtest.Items[status.Pair](t, tool("2025-01-01", "list MATRIX -o json --driver "+newDriver), "list.schema.json") {
		assert.Equal(t, 2, len(p.Advisories))
		assert.Equal(t, releases.Warning, p.Advisories[0].Severity)
		assert.Equal(t, releases.Notice, p.Advisories[1].Severity)
	}

	denied := tool("2026-06-30", "list MATRIX --deny known-bad,end-of-life").Want(t, 3, "--deny: there are warnings: 1 of kind end-of-life, 1 of kind known-bad")
	assert.Contains(t, denied.Stdout, newDriver)
	tool("2025-01-01", "list MATRIX --driver 535.261.03 --deny end-of-life --deny kernel-broken").Want(t, 0)
	tool("2025-01-01", "MATRIX --os debian12 --driver 535.261.03 --deny all --output oci:"+u.Path("dist")).Want(t, 3, fault, "--deny: there are warnings: 1 of kind known-bad")
	tool("2026-06-30", "plan MATRIX --deny known-bad --repository "+u.Host+"/gpu/driver").Want(t, 3, fault)

	drivers := func(args string) result { return tool("2026-06-30", "drivers MATRIX --releases none "+args) }
	assert.Equalf(t, "", drivers("").Stderr, "the table has all of it")
	drivers("--deny known-bad").Want(t, 3, fault, "--deny: there are warnings: 1 of kind known-bad")
	drivers("R418 --deny known-bad").Want(t, 0)
	drivers("R418 --deny all").Want(t, 3, "warning: NVIDIA no longer supports the branches of 418.87.01 (2022-03)\n", "1 of kind end-of-life")
	drivers("R535 --deny end-of-life").Want(t, 0)
	drivers("--lagging --deny known-bad").Want(t, 3, "the matrix lags behind: R535", "1 of kind known-bad")
	drivers("--deny old").Want(t, 2, "--deny")
	tool("2026-06-30", "list MATRIX --driver 535.261.03 --deny vulnerable").Want(t, 3, vulnerable, "1 of kind vulnerable")
	tool("2026-06-30", "list MATRIX --deny vulnerable=8.8,known-bad").Want(t, 3, "NVIDIA's bulletins, driver 418.87.01 (170 ", "1 of kind known-bad, 2 of kind vulnerable=8.8")
	tool("2026-06-30", "list MATRIX --deny vulnerable=8.9").Want(t, 0)
	for _, score := range []string{"11", "-1", "", "NaN", "high"} {
		tool("2026-06-30", "list MATRIX --deny vulnerable="+score).Want(t, 2, "SCORE is one of CVSS, 0 to 10")
	}

	contradicting := u.file(t, "contradicting.yaml", u.Matrix()+faulty+strings.TrimPrefix(faulty, "\nadvisories:\n"))
	u.Run(t, "list", "--matrix", contradicting).Want(t, 2, `advisory "test-1" appears twice: first on line`)
}
