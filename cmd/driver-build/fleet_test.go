package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
)

// fleetNodes writes a list of two nodes with a GPU, one of which has a system that no image is for, and one
// without a GPU.
func (u *user) fleetNodes(t *testing.T) string {
	t.Helper()
	node := func(name, gpu, id, running string) string {
		return `{"metadata": {"name": "` + name + `", "labels": {"kubernetes.io/arch": "amd64", "feature.node.kubernetes.io/system-os_release.ID": "` + id + `",
			"feature.node.kubernetes.io/system-os_release.VERSION_ID": "12", "feature.node.kubernetes.io/kernel-version.full": "6.1.0-56-amd64",
			"feature.node.kubernetes.io/pci-0302_10de.present": "` + gpu + `"` + running + `}},
			"status": {"nodeInfo": {"architecture": "amd64", "kernelVersion": "6.1.0-56-amd64", "osImage": "Debian GNU/Linux 12 (bookworm)"}}}`
	}
	return u.file(t, "nodes.json", `{"kind": "List", "items": [`+node("gpu-1", "true", "debian", `, "nvidia.com/driver.version.full": "470.256.02"`)+
		","+node("gpu-2", "true", "haiku", "")+","+node("web", "false", "debian", "")+`]}`)
}

// TestAudit names what runs on nodes and what mends it, and ends with an exit code of its own.
func TestAudit(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	command := "audit " + u.fleetNodes(t) + " --repository " + u.Host + "/gpu/driver "
	r := u.tool(t, command).Want(t, session.ExitExposed, "nodes whose driver is not as it should be: 2 (end-of-life 1, unknown 1, vulnerable 1)")
	goldentest.Compare(t, "testdata/audit.table", strings.ReplaceAll(u.Normal(r.Stdout), u.Dir, "DIR"))
	goldentest.Schema(t, "audit.schema.json", u.tool(t, command+"-o json").Want(t, session.ExitExposed).Stdout)
	u.tool(t, command+"--fail-on vulnerable=9,known-bad").Want(t, 0)
	u.tool(t, command+"--fail-on old").Want(t, 2, "no kind of finding")
	u.Run(t, "audit", u.Path("missing")).Want(t, 2, "read the list of nodes")
}

// TestFleet builds what fleet says is missing, and asks again. What it prints for pipelines and for the chart
// is parsed by what reads it there.
func TestFleet(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	command := "fleet " + u.fleetNodes(t) + " --repository " + u.Host + "/gpu/driver "
	first := u.tool(t, command).Want(t, 0)
	goldentest.Compare(t, "testdata/fleet.table", strings.ReplaceAll(u.Normal(first.Stdout), u.Dir, "DIR"))
	const unserved = "no driver (system-unknown): gpu-2: its system haiku 12 is not known"
	for _, format := range []string{"values", "github", "gitlab", "json"} {
		r := u.tool(t, command+"--allow-unserved kernel --format "+format)
		r.Want(t, session.ExitUnserved, unserved, "nodes with a GPU that get no driver: 1", "--allow-unserved system-unknown")
		assert.Equalf(t, format == "json", r.Stdout != "", "%s on standard output: %s", format, r.Stdout)
	}
	command += "--allow-unserved system-unknown "
	var plan struct{ Include []map[string]string }
	r := u.tool(t, command+"--format github").Want(t, 0, unserved)
	require.NoError(t, json.Unmarshal([]byte(r.Stdout), &plan))
	assert.Equalf(t, 1, len(plan.Include), "missing images")
	r = u.tool(t, command+"--format gitlab").Want(t, 0)
	require.NoError(t, yaml.Load([]byte(r.Stdout), &map[string]any{}))
	assert.Containsf(t, r.Stdout, plan.Include[0]["args"], "the arguments")

	u.Run(t, strings.Fields(plan.Include[0]["args"]+" --push")...).Want(t, 0)
	assert.Containsf(t, u.tool(t, command).Want(t, 0).Stdout, " present ", "after the build")
	assert.Equalf(t, `{"include":[]}`+"\n", u.tool(t, command+"--format github").Want(t, 0).Stdout, "after the build")
	goldentest.Schema(t, "fleet.schema.json", u.tool(t, command+"-o json").Want(t, 0).Stdout)
	r = u.tool(t, command+"--offline").Want(t, 0)
	assert.Equalf(t, true, strings.Contains(r.Stdout, " - ") && !strings.Contains(r.Stdout, "present"), "offline: %s", r.Stdout)

	r = u.tool(t, command+"--format values").Want(t, 0)
	var values struct {
		Image struct{ Repository string }
		Pools []map[string]any
	}
	require.NoError(t, yaml.Load([]byte(r.Stdout), &values))
	assert.Equalf(t, u.Host+"/gpu/driver", values.Image.Repository, "repository")
	assert.Equalf(t, 1, len(values.Pools), "pools")

	const set = "535.261.03-6.1.0-56-amd64-debian12-modules"
	command += "--precompiled=modules "
	assert.Containsf(t, u.tool(t, command).Want(t, 0).Stdout, "--arch amd64 --kernel 6.1.0-56-amd64 --profile modules ", "the build of modules")
	r = u.tool(t, command+"--format values").Want(t, 0)
	assert.Equalf(t, false, strings.Contains(r.Stdout, "moduleImages"), "without their image")
	assert.Containsf(t, r.Stderr, set+" (amd64) is not in the registry", "what the values leave out")
	whole := require.Value(name.ParseReference(u.Host + "/gpu/driver:535.261.03-debian12"))(t)
	require.NoError(t, remote.Tag(require.Value(name.NewTag(u.Host+"/gpu/driver:"+set))(t), require.Value(remote.Get(whole))(t)))
	assert.Containsf(t, u.tool(t, command+"--format values").Want(t, 0).Stdout, "      moduleImages:\n        - "+u.Host+"/gpu/driver:"+set+"\n", "with it")
}

// TestFleetRefuses: input that is no list prints nothing, and says what is wrong with which file.
func TestFleetRefuses(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	file := u.fleetNodes(t)
	text := testfile.Read(t, file)
	cut, none := u.file(t, "cut.json", text[:len(text)-200]), u.file(t, "none.json", `{"kind": "List", "items": []}`)
	for args, c := range map[string]struct {
		code int
		want string
	}{
		cut:                       {5, cut + ": no list of nodes: it ends after 2 nodes, the last of which is gpu-2: it was cut off, ask again"},
		none + " --format values": {3, "no node of a cluster gets a driver"},
		file + " --precompiled=modules --format values": {2, "values with --precompiled=modules have the images that the registry has: give --repository"},
		file + " --allow-unserved no-gpu":               {2, `"no-gpu" is no reason that can be accepted: use bad-report, vgpu-guest, system-unknown`},
	} {
		r := u.tool(t, "fleet "+args).Want(t, c.code, c.want)
		assert.Equalf(t, "", r.Stdout, "%s: standard output", args)
	}
	assert.Equalf(t, "", u.tool(t, "fleet "+none).Want(t, 0).Stdout, "no nodes")
}

// TestNewerAdvisories: bulletins that are newer than the program count for drivers and nodes alike, and a file
// that is none is refused before anything is printed.
func TestNewerAdvisories(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	const newer = `{"document": {"csaf_version": "2.0", "publisher": {"namespace": "https://www.nvidia.com/security"},
		"tracking": {"id": "9001", "initial_release_date": "2027-01-20T00:00:00Z", "status": "final"}},
		"product_tree": {"branches": [{"category": "architecture", "name": "Linux(R535)", "branches": [
			{"category": "product_version", "name": "Tesla", "product": {"product_id": "a", "name": "535.400.01"}}]}]},
		"vulnerabilities": [{"cve": "CVE-2027-0001", "product_status": {"fixed": ["a"]}, "scores": [{"cvss_v3": {"baseScore": 9.8}}]}]}`
	file := u.file(t, "9001.json", newer)
	nodes := u.fleetNodes(t)
	for _, command := range []string{"list --driver 535", "drivers R535 --releases none", "check --driver 535 --offline", "fleet " + nodes, "gpus 1eb8"} {
		assert.Containsf(t, u.tool(t, command+" --advisories "+file).Stdout, "101 up to 9.8", "%s", command)
	}
	u.tool(t, "list --deny vulnerable=9 --advisories "+file).Want(t, 3, "535.261.03 (101 known CVEs up to 9.8, 19 fixed in 535.400.01")
	other := u.file(t, "other.json", strings.Replace(newer, "nvidia.com", "example.com", 1))
	for _, command := range []string{"list", "audit " + nodes, "gpus", "report --html -"} {
		r := u.tool(t, command+" --advisories "+other).Want(t, session.ExitMismatch, "--advisories: ", "its publisher is")
		assert.Equalf(t, "", r.Stdout, "%s", command)
	}
	u.tool(t, "list --advisories "+u.Path("missing")).Want(t, 2, "--advisories: ")
}
