package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// buildArgs makes the test a process that builds with these arguments.
const buildArgs = "DRIVER_BUILD_TEST_ARGS"

// TestRealParallelBuilds: 64 processes build equal and different images with one cache, and every fourth is killed on its
// way. The others end as if they were alone, and the cache is whole: all images can be built of it offline.
func TestRealParallelBuilds(t *testing.T) {
	if args := os.Getenv(buildArgs); args != "" {
		fmt.Print(call(t.Context(), t, nil, strings.Fields(args)...).Want(t, 0).Stdout)
		return
	}
	tool.Real(t, "it needs memory for 64 processes")
	u := manyTargets(t)
	alone := digests(u.Run(t, "--all", "--output", "oci:"+u.Path("alone")).Want(t, 0).Stdout)
	var tags []string
	for tag := range alone {
		tags = append(tags, tag)
	}
	u.Cache = t.TempDir()
	tmp := "TMPDIR=" + t.TempDir() // a killed process leaves its folders there
	var jobs errgroup.Group
	for n := range 64 {
		tag := tags[n%len(tags)]
		driver, system, _ := strings.Cut(tag, "-")
		args := []string{"--os", system, "--driver", driver, "--matrix", u.Path("matrix.yaml"), "--cache", u.Cache, "--output", "oci:" + t.TempDir()}
		cmd := exec.CommandContext(t.Context(), require.Value(os.Executable())(t), "-test.run=^TestRealParallelBuilds$")
		cmd.Env = append(os.Environ(), tmp, buildArgs+"="+strings.Join(args, " "))
		var out bytes.Buffer
		cmd.Stdout = &out
		require.NoError(t, cmd.Start())
		if n%4 == 3 {
			time.AfterFunc(time.Duration(n)*50*time.Millisecond, func() { _ = cmd.Process.Kill() }) // it may have ended
		}
		jobs.Go(func() error {
			err := cmd.Wait()
			if n%4 == 3 {
				return nil
			}
			if err != nil || digests(out.String())[tag] != alone[tag] {
				return fmt.Errorf("%s: %w, want %s:\n%s", tag, err, alone[tag], &out)
			}
			return nil
		})
	}
	assert.NoError(t, jobs.Wait())
	again := u.Run(t, "--all", "--offline", "--output", "oci:"+u.Path("again")).Want(t, 0)
	assert.Same(t, alone, digests(again.Stdout))
}

// digests are those of lines "oci:DIR:TAG@DIGEST", by tag.
func digests(stdout string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(stdout) {
		name, digest, ok := strings.Cut(strings.TrimSpace(line), "@")
		if ok {
			all[name[strings.LastIndex(name, ":")+1:]] = digest
		}
	}
	return all
}
