package control_test

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/testkit/assert"
)

// This plane refuses what real clusters refuse; otherwise tests on it would prove little.
func TestAPIServer(t *testing.T) {
	p := control.Start(t, control.Config{})
	if got := p.Kubectl("version"); !strings.Contains(got, "Server Version: v1.37.") || !strings.Contains(got, "Client Version: v1.37.") {
		t.Errorf("kubectl version says:\n%s", got)
	}
	assert.ErrorContains(t, assert.Err(p.ServiceAccount("default", "nobody").TryKubectl("get", "pods", "-A")), "Forbidden")
	assert.ErrorContains(t, assert.Err(p.WithToken("x").TryKubectl("get", "pods", "-A")), "must be logged in")
	assert.Errorf(t, assert.Err(p.KubectlInput("{", "create", "-f", "-")), "half an object is accepted")
	assert.Contains(t, p.Helm("version", "--short"), "v4.")
}
