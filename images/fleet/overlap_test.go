package fleet_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/fleet"
	"github.com/driver-container/driver-container/images/fleet/nodes"
)

// TestSharedNode: without node feature discovery a node with the labels of two clouds is chosen by the
// selectors of both. It gets one pool; a node that only the other selector chooses gets nothing, and the
// reason names the node that is in the way.
func TestSharedNode(t *testing.T) {
	t.Parallel()
	const azure, google = `"accelerator": "nvidia"`, `"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"`
	node := func(name, labels, image string) string {
		return fmt.Sprintf(`{"metadata": {"name": %q, "labels": {"kubernetes.io/arch": "amd64", %s}},
			"status": {"nodeInfo": {"architecture": "amd64", "kernelVersion": "5.15.0-122-generic", "osImage": %q}}}`, name, labels, image)
	}
	const ubuntu, debian = "Ubuntu 22.04.5 LTS", "Debian GNU/Linux 12 (bookworm)"
	for name, c := range map[string]struct{ shared, system, code string }{
		"the same image":             {"both", ubuntu, fleet.NotLabelled},
		"another image":              {"both", debian, fleet.Alike},
		"another image, sorts first": {"a-both", debian, fleet.Alike},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := `{"kind": "NodeList", "items": [` + strings.Join([]string{
				node("azure", azure, ubuntu), node(c.shared, azure+", "+google, ubuntu), node("google", google, c.system),
			}, ",") + `]}`
			all := require.Value(nodes.Read(strings.NewReader(text)))(t)
			p := require.Value(fleet.Decide(rows(t), all, fleet.Options{At: at}))(t)
			checkPlan(t, all, p)
			if len(p.Pools) != 1 || len(p.Pools[0].Nodes) != 2 || p.Pools[0].System != "ubuntu22.04" || slices.Contains(p.Pools[0].Nodes, "google") {
				t.Errorf("the pools: %+v", p.Pools)
			}
			if len(p.Without) != 1 || strings.Join(p.Without[0].Nodes, " ") != "google" {
				t.Fatalf("without a driver: %+v", p.Without)
			}
			assert.Equalf(t, c.code, p.Without[0].Code, "the code")
			assert.Containsf(t, p.Without[0].Reason, c.shared, "the reason")
		})
	}
}
