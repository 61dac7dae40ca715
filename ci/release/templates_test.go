package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// pipeline is the part of GitLab's language that ci/templates uses; https://docs.gitlab.com/ci/yaml has all of
// it. Another key is a mistake. actionlint knows GitHub's; for GitLab's no such tool works without a server.
type pipeline struct {
	Stages    []string
	Workflow  struct{ Rules []rule }
	Variables map[string]string
	Default   struct {
		Image         string
		Interruptible bool
	}
	Jobs map[string]job `yaml:",inline"`
}

type rule struct {
	If, When     string
	AllowFailure bool `yaml:"allow_failure"`
}

type job struct {
	Extends, Stage, Timeout string
	ResourceGroup           string `yaml:"resource_group"`
	Rules                   []rule
	Variables               map[string]string
	Cache                   []struct {
		Key   string
		Paths []string
	}
	BeforeScript []string `yaml:"before_script"`
	Script       []string
	AfterScript  []string `yaml:"after_script"`
	Artifacts    struct {
		Paths    []string
		ExpireIn string `yaml:"expire_in"`
	}
	Trigger *struct {
		Include  []map[string]string
		Strategy string
	}
}

func load(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../templates", file))
	if err == nil {
		err = yaml.Load(data, into, yaml.WithKnownFields(), yaml.WithUniqueKeys())
	}
	require.NoErrorf(t, err, "%s", file)
}

// check finds what GitLab would refuse: a job without a script, a missing stage, a missing template.
func (p pipeline) check() (wrong []string) {
	for _, name := range slices.Sorted(maps.Keys(p.Jobs)) {
		say := func(format string, args ...any) { wrong = append(wrong, name+": "+fmt.Sprintf(format, args...)) }
		j := p.Jobs[name]
		whole := j
		for at, depth := j, 0; at.Extends != ""; depth++ {
			above, ok := p.Jobs[at.Extends]
			if !ok || depth > 10 {
				say("extends %s, which is not there", at.Extends)
				break
			}
			whole.Stage = cmp.Or(whole.Stage, above.Stage)
			if whole.Script == nil {
				whole.Script = above.Script
			}
			at = above
		}
		if strings.HasPrefix(name, ".") {
			continue
		}
		if (len(whole.Script) == 0) == (whole.Trigger == nil) {
			say("a job has either a script or a trigger")
		}
		if stages := p.Stages; !slices.Contains(stages, whole.Stage) {
			say("stage %q is not one of %q", whole.Stage, stages)
		}
		if whole.Trigger == nil {
			continue
		}
		if n := len(whole.Trigger.Include); n == 0 || n > 3 {
			say("%d files are included: one to three may be", n)
		}
		for _, include := range whole.Trigger.Include {
			if from, ok := include["job"]; ok && !slices.Contains(p.Jobs[from].Artifacts.Paths, include["artifact"]) {
				say("job %s leaves no %s", from, include["artifact"])
			}
		}
	}
	return wrong
}

func TestGitLab(t *testing.T) {
	t.Parallel()
	var parent pipeline
	load(t, "gitlab.yaml", &parent)
	assert.Equal(t, "", strings.Join(parent.check(), "\n"))
	for _, child := range []string{"plan.gitlab", "plan-empty.gitlab"} {
		var generated pipeline
		load(t, filepath.Join("../../cmd/driver-build/testdata", child), &generated)
		whole := parent
		whole.Jobs = maps.Clone(parent.Jobs)
		maps.Copy(whole.Jobs, generated.Jobs)
		if wrong := whole.check(); len(wrong) > 0 || len(generated.Jobs) == 0 {
			t.Errorf("%s: %d jobs; %s", child, len(generated.Jobs), strings.Join(wrong, "\n"))
		}
		for name, j := range parent.Jobs { // a child pipeline with these jobs would plan again, and trigger itself
			if !strings.HasPrefix(name, ".") && (len(j.Rules) != 1 || j.Rules[0].If != `$CI_PIPELINE_SOURCE != "parent_pipeline"`) {
				t.Errorf("%s also runs in the child pipeline", name)
			}
		}
	}
	assert.Equalf(t, 3, len((pipeline{Jobs: map[string]job{"a": {Extends: ".b"}}}).check()), "the check itself")
}

// TestPipelinesSign: both pipelines pin driver-build, sign with the user's key, and talk to no public log.
func TestPipelinesSign(t *testing.T) {
	t.Parallel()
	pinned := regexp.MustCompile(`(?m)^  DRIVER_BUILD_REF: (v[0-9]+\.[0-9]+\.[0-9]+|[0-9a-f]{40})( #.*)?$`)
	for _, file := range []string{"github.yaml", "gitlab.yaml"} {
		text := string(require.Value(os.ReadFile(filepath.Join("../templates", file)))(t))
		assert.Equalf(t, true, pinned.MatchString(text), "%s: DRIVER_BUILD_REF is a version", file)
		for _, want := range []string{"--sbom", "--provenance=ci", "--image-key", "DRIVER_IMAGE_PASSPHRASE", "driver-build bundle create"} {
			assert.Containsf(t, text, want, "%s", file)
		}
		for _, never := range []string{"cosign", "rekor", "fulcio", "id-token"} {
			assert.Equalf(t, false, strings.Contains(text, never), "%s: %s talks to public services", file, never)
		}
	}
}

// TestGitLabScripts runs shellcheck on the scripts of the jobs. actionlint does so for GitHub.
func TestGitLabScripts(t *testing.T) {
	t.Parallel()
	shellcheck, err := exec.LookPath("shellcheck")
	if err != nil {
		t.Skip("there is no shellcheck")
	}
	var p pipeline
	load(t, "gitlab.yaml", &p)
	for name, j := range p.Jobs {
		script := strings.Join(slices.Concat([]string{"#!/bin/bash"}, j.BeforeScript, j.Script, j.AfterScript), "\n")
		cmd := exec.CommandContext(t.Context(), shellcheck, "--severity=style", "-")
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// TestGitHub checks what actionlint does not: that actions are pinned, and that no job has more rights than
// it needs.
func TestGitHub(t *testing.T) {
	t.Parallel()
	var w struct {
		Permissions map[string]string
		Jobs        map[string]struct {
			Permissions map[string]string
			Timeout     int `yaml:"timeout-minutes"`
			Steps       []struct{ Uses, Run string }
		}
	}
	data, err := os.ReadFile("../templates/github.yaml")
	if err == nil {
		err = yaml.Load(data, &w)
	}
	require.NoError(t, err)
	if w.Permissions == nil || len(w.Permissions) != 0 {
		t.Errorf("permissions of the workflow: %v", w.Permissions)
	}
	pinned := regexp.MustCompile(`^[a-z0-9-]+/[a-z0-9-]+@[0-9a-f]{40}$`)
	for name, j := range w.Jobs {
		if j.Permissions["contents"] != "read" || j.Timeout == 0 {
			t.Errorf("%s: %v, %d minutes", name, j.Permissions, j.Timeout)
		}
		for _, s := range j.Steps {
			if s.Uses != "" && !pinned.MatchString(s.Uses) {
				t.Errorf("%s: %s is not pinned to a commit", name, s.Uses)
			}
			assert.Equalf(t, false, strings.Contains(s.Run, "${{"), "%s: an expression in a script: give it in env\n%s", name, s.Run)
		}
	}
}
