package main

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/commandtest"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/releases"
)

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
	assert.Contains(t, r.Stdout, "CUDA           NOTE")
	supports := map[string]releases.CUDASupport{oldDriver: releases.CUDANone, newDriver: releases.CUDAMinor}
	for _, p := range commandtest.Items[batch.Pair](t, u.tool(t, "list -o json --cuda 12.8"), "list.schema.json") {
		assert.Equalf(t, supports[p.Driver], p.Runs.Support, "%s", p.Driver)
	}
	for _, p := range commandtest.Items[batch.Pair](t, u.tool(t, "list -o json --cuda 10.1"), "list.schema.json") {
		assert.Equalf(t, releases.CUDANative, p.Runs.Support, "%s", p.Driver)
	}
	for _, b := range commandtest.Items[releases.Coverage](t, u.tool(t, "drivers --releases none -o json --cuda 13.0"), "drivers.schema.json") {
		want := map[string]string{"R535": "none", "R580": "native", "R610": "native", "R418": "none"}[b.Branch]
		assert.Equalf(t, true, want == "" || want == b.RunsCUDA, "%s: %s", b.Branch, b.RunsCUDA)
	}
	assert.Contains(t, u.tool(t, "drivers R570 --releases none --cuda 12.8").Stdout, "RUNS IT")

	// A release that only the matrix states, and a driver whose entry states another than the table.
	stated := u.file(t, "stated.yaml", strings.Replace(u.Matrix(), "version: "+newDriver, "cuda: 13.9\n    version: "+newDriver, 1))
	r = u.Run(t, "list", "--matrix", stated, "--os", "ubuntu16.04", "--driver", newDriver, "--cuda", "13.9")
	r.Want(t, 0, "CUDA 13.9 needs driver 580.65.06 or newer")
	assert.Contains(t, r.Stdout, "native")

	u.tool(t, "plan --cuda 13.0 --repository h.example/a").Want(t, 2, "--cuda 13.0: no driver of the selection runs it: it needs 580.65.06 or newer")
}

// TestAdvisories: what is known of drivers is printed, and --deny makes it an error.
func TestAdvisories(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	file := u.file(t, "faulty.yaml", u.Matrix()+faulty)
	tool := func(args string) result {
		t.Helper()
		return u.Run(t, strings.Fields(strings.Replace(args, "MATRIX", "--matrix "+file, 1))...)
	}
	const fault = "warning: driver 535.261.03 is known to be bad: nodes with MIG: pods stay Pending; fixed in 580.1 (https://example.com/1)"
	tool("list MATRIX --at 2026-06-30").Want(t, 0, fault, "warning: NVIDIA no longer supports the branches of 418.87.01 (2022-03)\n",
		"note: NVIDIA's support ends soon for the branches of 535.261.03 (2026-06)")
	tool("list MATRIX --at 2026-07-01").Want(t, 0, "warning: NVIDIA no longer supports the branches of 418.87.01 (2022-03), 535.261.03 (2026-06)")
	assert.Equal(t, fault+"\n", tool("list MATRIX --at 2025-01-01 --driver "+newDriver).Stderr)
	for _, p := range commandtest.Items[batch.Pair](t, tool("list MATRIX -o json --at 2025-01-01 --driver "+newDriver), "list.schema.json") {
		assert.Equal(t, 2, len(p.Advisories))
		assert.Equal(t, releases.Warning, p.Advisories[0].Severity)
		assert.Equal(t, releases.Notice, p.Advisories[1].Severity)
	}

	denied := tool("list MATRIX --at 2026-06-30 --deny known-bad,end-of-life")
	denied.Want(t, 3, "--deny: there are warnings: 1 of kind end-of-life, 1 of kind known-bad")
	assert.Contains(t, denied.Stdout, newDriver)
	tool("list MATRIX --at 2025-01-01 --driver 535.261.03 --deny end-of-life --deny kernel-broken").Want(t, 0)
	r := tool("MATRIX --os debian12 --driver 535.261.03 --at 2025-01-01 --deny all --output oci:" + u.Path("dist"))
	r.Want(t, 3, fault, "--deny: there are warnings: 1 of kind known-bad")
	tool("plan MATRIX --deny known-bad --repository "+u.Host+"/gpu/driver").Want(t, 3, fault)

	drivers := func(args string) result { return tool("drivers MATRIX --releases none --at 2026-06-30 " + args) }
	assert.Equalf(t, "", drivers("").Stderr, "the table has all of it")
	drivers("--deny known-bad").Want(t, 3, fault, "--deny: there are warnings: 1 of kind known-bad")
	drivers("R418 --deny known-bad").Want(t, 0)
	drivers("R418 --deny all").Want(t, 3, "warning: NVIDIA no longer supports the branches of 418.87.01 (2022-03)\n", "1 of kind end-of-life")
	drivers("R535 --deny end-of-life").Want(t, 0)
	drivers("--lagging --deny known-bad").Want(t, 3, "the matrix lags behind: R535", "1 of kind known-bad")
	drivers("--deny old").Want(t, 2, "--deny")

	contradicting := u.file(t, "contradicting.yaml", u.Matrix()+faulty+strings.TrimPrefix(faulty, "\nadvisories:\n"))
	u.Run(t, "list", "--matrix", contradicting).Want(t, 2, `advisory "test-1" appears twice: first on line`)
}
