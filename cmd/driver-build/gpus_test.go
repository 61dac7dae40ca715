package main

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

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
	if n := strings.Count(r.Stdout, "\n"); n != 4 {
		t.Errorf("%d lines; a GPU that was named twice is there once:\n%s", n, r.Stdout)
	}
	r = call(t.Context(), t, nil, "gpus", "V100", "-o", "json").Want(t, 0)
	assert.Contains(t, r.Stdout, `"lastBranch": "R580"`)
	r = call(t.Context(), t, nil, "gpus", "--node-feature-rules").Want(t, 0)
	assert.Contains(t, r.Stdout, "apiVersion: nfd.k8s-sigs.io/v1alpha1")
	for args, parts := range map[string][]string{
		"Telsa-T4":                  {`GPU "Telsa-T4" is not in the list`, "Tesla T4"},
		"1002:67df":                 {"vendor 1002", "not of NVIDIA (10de)"},
		"1eb8 nothing":              {`GPU "nothing" is not in the list`},
		"1eb8 -o yaml":              {"use table or json"},
		"1eb8 --node-feature-rules": {"about all GPUs: leave out 1eb8"},
		"--matrix /no/such.yaml":    {"/no/such.yaml"},
	} {
		r := call(t.Context(), t, nil, append([]string{"gpus"}, strings.Fields(args)...)...).Want(t, 2, parts...)
		if r.Stdout != "" {
			t.Errorf("%s: stdout %q", args, r.Stdout)
		}
	}
}
