package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// Test13Templates runs the scripts of both pipelines for users in a root with what golang:1.26-bookworm has, and
// no cross compiler: from the source, which the template builds, to an image in a registry. The repository has
// what matrix init writes; the caches of Go and driver-build are there, as after a first run.
func Test13Templates(t *testing.T) {
	root := journey(t)
	b := &bare{root: bareRoot(t), registry: startRegistry(t)}
	testfile.Write(t, b.root+"/ca.pem", testfile.Read(t, b.registry.ca))
	command{args: []string{"sh", "-c", `git ls-files -z | tar --null -T - --ignore-failed-read -c | tar -x -C "$0" &&
		cd "$0" && git init -q && git add . && git -c user.name=a -c user.email=a@b.c commit -qm a && git tag v0.3.0`, b.dir(t, "/src")}, dir: root}.want(t, 0)
	image := b.registry.host + "/library/debian:12-slim"
	command{args: []string{program(t), "push", base(t, "debian12", "amd64"), image, "--ca", b.registry.ca}, env: []string{"DOCKER_CONFIG=" + b.registry.config}}.want(t, 0)
	b.env = map[string]string{
		"HOME": "/root", "PATH": "/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "DRIVER_BUILD_CA": "/ca.pem",
		"GOMODCACHE": "/gomod", "GOCACHE": "/gobuild", "GOFLAGS": "", "GOPROXY": "off",
		"PLAN_FLAGS": "--os debian12 --driver 535.261.03 --registry-mirror docker.io=" + b.registry.host,
	}
	t.Run("github", b.github)
	t.Run("gitlab", b.gitlab)
}

// bare is a root without a cross compiler, and a registry of users.
type bare struct {
	root     string
	registry privateRegistry
	env      map[string]string
}

// dir makes a folder in the root.
func (b *bare) dir(t *testing.T, path string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(b.root+path, 0o755))
	return b.root + path
}

// site makes the repository of a user.
func (b *bare) site(t *testing.T, path string) string {
	t.Helper()
	command{args: []string{program(t), "matrix", "init", "--os", "debian12,ubuntu22.04", "--driver", "535.261.03", "--output", b.dir(t, path)}}.want(t, 0)
	return path
}

// run runs a script as a step of a job.
func (b *bare) run(t *testing.T, dir, cache, script string, env map[string]string) result {
	t.Helper()
	require.NoError(t, os.WriteFile(b.root+"/script", []byte(script), 0o600))
	all := maps.Clone(b.env)
	maps.Copy(all, env)
	var words []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		words = append(words, name+"="+all[name])
	}
	const mounts = `set -e; root=$1
mount -t proc proc "$root/proc"; mount --rbind /dev "$root/dev"
for pair in "$(go env GOROOT)=/usr/local/go" "$(go env GOMODCACHE)=/gomod" "$(go env GOCACHE)=/gobuild" "${XDG_CACHE_HOME:-$HOME/.cache}/driver-build=$2"; do
  mkdir -p "$root/${pair#*=}"; mount --bind "${pair%%=*}" "$root/${pair#*=}"
done
shift 2; exec chroot "$root" env -i "$@"`
	args := append([]string{"unshare", "--mount", "sh", "-c", mounts, "sh", b.root, cache, "-C", dir}, words...)
	return command{args: append(args, "bash", "-eo", "pipefail", "/script"), dir: repository(t)}.want(t, 0)
}

// bareRoot makes the root, with the packages of the image beside Go: https://github.com/docker-library/golang.
func bareRoot(t *testing.T) string {
	t.Helper()
	env := []string{"BASE_DIR=" + filepath.Join(workspace(t), "bare"), "BASE_INCLUDE=g++,gcc,libc6-dev,make,pkg-config,git,curl"}
	lines := strings.Split(strings.TrimSpace(command{args: []string{filepath.Join(repository(t), "ci", "base"), "debian12", "amd64"}, env: env}.want(t, 0).stdout), "\n")
	root := image{dir: strings.TrimPrefix(lines[len(lines)-1], "oci:")}.unpack(t)
	testfile.Write(t, root+"/etc/resolv.conf", testfile.Read(t, "/etc/resolv.conf"))
	return root
}

// load reads a template.
func load(t *testing.T, name string, into any) {
	t.Helper()
	require.NoError(t, yaml.Load(require.Value(os.ReadFile(filepath.Join(repository(t), "ci/templates", name)))(t), into))
}

// github runs the steps of the jobs plan and build, in place of the actions only a checkout.
func (b *bare) github(t *testing.T) {
	var w struct {
		Env  map[string]string
		Jobs map[string]struct {
			Steps []struct{ Name, ID, If, Run string }
		}
	}
	load(t, "github.yaml", &w)
	site := b.site(t, "/github")
	sh(t, "git", "clone", "-q", b.root+"/src", b.root+site+"/.driver-build")
	env := maps.Clone(w.Env)
	maps.Copy(env, map[string]string{
		"PLAN_FLAGS": b.env["PLAN_FLAGS"], "REGISTRY": b.registry.host, "GITHUB_REPOSITORY_OWNER": "Site", "GITHUB_ACTOR": "builder", "TOKEN": "correct horse",
		"RUNNER_TEMP": "/tmp", "GITHUB_PATH": "/path", "GITHUB_ENV": "/env", "GITHUB_OUTPUT": "/output", "GITHUB_STEP_SUMMARY": "/summary",
	})
	for _, job := range []string{"plan", "build"} {
		for _, step := range w.Jobs[job].Steps {
			if step.Run == "" || step.If != "" { // a condition: the rehearsal, which is off
				continue
			}
			for _, line := range lines(t, b.root+"/env") {
				name, value, _ := strings.Cut(line, "=")
				env[name] = value
			}
			env["PATH"] = strings.Join(append(lines(t, b.root+"/path"), b.env["PATH"]), ":")
			b.run(t, site, "/root/.cache/driver-build", step.Run, env)
		}
		if job == "plan" {
			var plan struct{ Include []map[string]string }
			_, text, _ := strings.Cut(lines(t, b.root+"/output")[0], "matrix=")
			require.NoError(t, json.Unmarshal([]byte(text), &plan))
			env["ARGS"], env["REASON"] = plan.Include[0]["args"], plan.Include[0]["reason"]
		}
	}
	b.pushed(t, "site/nvidia-driver", lines(t, b.root+"/summary")[0])
}

// gitlab runs the scripts of plan and of the first job in the pipeline that it prints.
func (b *bare) gitlab(t *testing.T) {
	type job struct {
		BeforeScript []string `yaml:"before_script"`
		Script       []string
		Variables    map[string]string
	}
	var template map[string]yaml.Node
	load(t, "gitlab.yaml", &template)
	read := func(name string, into any) {
		node := template[name]
		require.NoError(t, node.Decode(into))
	}
	var env map[string]string
	var tools, plan, build job
	read("variables", &env)
	read(".tools", &tools)
	read("plan", &plan)
	read(".driver-build", &build)
	site := b.site(t, "/gitlab")
	maps.Copy(env, map[string]string{
		"PLAN_FLAGS": b.env["PLAN_FLAGS"], "DRIVER_BUILD_SOURCE": "file:///src", "DRIVER_REPOSITORY": b.registry.host + "/group/nvidia-driver",
		"CI_REGISTRY": b.registry.host, "CI_REGISTRY_USER": "builder", "CI_REGISTRY_PASSWORD": "correct horse",
	})
	run := func(script []string) result {
		return b.run(t, site, site+"/.store/driver-build", strings.Join(slices.Concat(tools.BeforeScript, script), "\n"), env)
	}
	run(plan.Script)
	var child map[string]job
	require.NoError(t, yaml.Load(require.Value(os.ReadFile(b.root+site+"/plan.yaml"))(t), &child))
	for _, j := range child {
		maps.Copy(env, j.Variables)
	}
	printed := run(build.Script)
	b.pushed(t, "group/nvidia-driver", printed.stdout)
}

// pushed checks that what a job prints is in the registry.
func (b *bare) pushed(t *testing.T, repository, printed string) {
	t.Helper()
	_, digest, ok := strings.Cut(strings.TrimSpace(printed), "@")
	if !ok {
		t.Fatalf("%q names no image", printed)
	}
	ref := b.registry.host + "/" + repository
	got := sh(t, "skopeo", "inspect", "--raw", "--cert-dir", filepath.Dir(b.registry.ca), "--creds", "builder:correct horse", "docker://"+ref+"@"+digest)
	if !strings.Contains(got, `"layers"`) {
		t.Errorf("%s is no image: %s", ref, got)
	}
}

// lines are those of a file, none if it is not there.
func lines(t *testing.T, file string) []string {
	t.Helper()
	data, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}
