package kernelmodules

import (
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/recipe"
)

// moduleCR has the fields of KMM's Module (kmm.sigs.x-k8s.io/v1beta1) that say what is loaded and where.
type moduleCR struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name, Namespace string }
	Spec       struct {
		ModuleLoader struct {
			Container struct {
				Modprobe struct {
					ModuleName          string   `yaml:"moduleName"`
					Parameters          []string `yaml:"parameters"`
					DirName             string   `yaml:"dirName"`
					FirmwarePath        string   `yaml:"firmwarePath"`
					ModulesLoadingOrder []string `yaml:"modulesLoadingOrder"`
					Args                struct{ Load, Unload []string }
				}
				InTreeModulesToRemove []string `yaml:"inTreeModulesToRemove"`
				KernelMappings        []struct {
					Literal, Regexp string
					ContainerImage  string `yaml:"containerImage"`
				} `yaml:"kernelMappings"`
			}
			ServiceAccountName string `yaml:"serviceAccountName"`
		} `yaml:"moduleLoader"`
		ImageRepoSecret map[string]string `yaml:"imageRepoSecret"`
		Selector        map[string]string
	}
}

// TestExample: the Module of the page has KMM's fields and names the folders of the image.
func TestExample(t *testing.T) {
	t.Parallel()
	page := string(require.Value(os.ReadFile("../../docs/kernels.md"))(t))
	_, text, _ := strings.Cut(page, "```yaml\n")
	text, _, found := strings.Cut(text, "```")
	if !found {
		t.Fatal("docs/kernels.md has no example")
	}
	var m moduleCR
	d := yaml.NewDecoder(strings.NewReader(text))
	d.KnownFields(true)
	require.NoError(t, d.Decode(&m))
	c := m.Spec.ModuleLoader.Container
	assert.Equal(t, "kmm.sigs.x-k8s.io/v1beta1 Module", m.APIVersion+" "+m.Kind)
	assert.Equal(t, "/"+recipe.KMMDir, c.Modprobe.DirName+"/lib/modules")
	assert.Equal(t, "/"+recipe.FirmwareDir, c.Modprobe.FirmwarePath)
	assert.Equal(t, c.Modprobe.ModuleName, c.Modprobe.ModulesLoadingOrder[0]) // KMM's webhook demands it
	for _, name := range c.Modprobe.ModulesLoadingOrder[1:] {                 // the unload takes nvidia with the last of the others
		assert.Equalf(t, name != "nvidia", slices.Contains(c.Modprobe.Args.Unload, name), "%s is unloaded", name)
	}
	if len(c.KernelMappings) == 0 || len(m.Spec.Selector) == 0 {
		t.Error("the example chooses no kernel, or no node")
	}
}
