package journeys

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/ci/cluster"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// fleet writes the chart's values from the cluster's nodes with the real driver-build.
type fleet struct {
	program    string // driver-build
	repository string
	driver     string // the only one that may be chosen: the node has its image
}

// newFleet compiles driver-build.
func newFleet(t *testing.T, c *cluster.Cluster, driver string) fleet {
	t.Helper()
	f := fleet{program: filepath.Join(t.TempDir(), "driver-build"), driver: driver}
	f.repository, _ = c.ImageRef(driver)
	require.NoError(t, tool.Build(t.Context(), f.program, "cmd/driver-build"))
	return f
}

// values asks the API for its nodes and returns the file that driver-build writes, and the one pool in it.
func (f fleet) values(t *testing.T, c *cluster.Cluster) (file string, pool fleetPool) {
	t.Helper()
	dir := t.TempDir()
	list := filepath.Join(dir, "nodes.json")
	require.NoError(t, os.WriteFile(list, []byte(c.Kubectl("get", "nodes", "-o", "json")), 0o600))
	onNode, name, _ := strings.Cut(f.repository, "/")
	text := require.Value(tool.Run(t.Context(), dir, []string{"HOME=" + dir},
		f.program, "fleet", list, "--precompiled=modules", "--driver", f.driver, "--format", "values",
		"--repository", c.Registry+"/"+name, "--insecure-registry"))(t)
	text = strings.ReplaceAll(text, c.Registry, onNode)
	file = filepath.Join(dir, "pools.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	var values struct{ Pools []fleetPool }
	require.NoError(t, yaml.Load([]byte(text), &values))
	if len(values.Pools) != 1 {
		t.Fatalf("one node needs one pool:\n%s", text)
	}
	return file, values.Pools[0]
}

// fleetPool is what a journey asks about a pool of these values.
type fleetPool struct {
	Name         string            `yaml:"name"`
	NodeSelector map[string]string `yaml:"nodeSelector"`
	ModuleImages []string          `yaml:"moduleImages"`
}

// labelNode gives the node the labels of node feature discovery in its usual configuration, as far as they
// are about drivers. They come from the files on the node that node feature discovery reads.
func labelNode(c *cluster.Cluster) {
	const feature = "feature.node.kubernetes.io/"
	labels := strings.Fields(c.Node(`. /etc/os-release; release=$(uname -r)
		echo ` + feature + `system-os_release.ID=$ID ` + feature + `system-os_release.VERSION_ID=$VERSION_ID ` + feature + `system-os_release.VERSION_ID.major=${VERSION_ID%%.*}
		echo ` + feature + `kernel-version.full=$release ` + feature + `kernel-version.major=$(echo $release | cut -d. -f1) ` + feature + `kernel-version.minor=$(echo $release | cut -d. -f2)
		for device in /sys/bus/pci/devices/*; do
			class=$(cut -c3-6 $device/class); case $class in 03*) echo ` + feature + `pci-${class}_$(cut -c3-6 $device/vendor).present=true;; esac
		done`))
	c.Kubectl(append([]string{"label", "node", cluster.NodeName}, labels...)...)
}
