package fleet

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/fleet/nodes"
)

// toleration is one of a pod.
type toleration struct {
	Key      string `yaml:"key"`
	Operator string `yaml:"operator"`
	Value    string `yaml:"value,omitempty"`
	Effect   string `yaml:"effect,omitempty"`
}

// tolerated are those of the chart's values.yaml, which a list in other values replaces.
var tolerated = []toleration{
	{Key: "nvidia.com/gpu", Operator: "Exists"}, {Key: "CriticalAddonsOnly", Operator: "Exists"},
	{Key: "sku", Operator: "Equal", Value: "gpu", Effect: "NoSchedule"},
}

func (t toleration) covers(taint nodes.Taint) bool {
	return t.Key == taint.Key && (t.Effect == "" || t.Effect == taint.Effect) && (t.Operator == "Exists" || t.Value == taint.Value)
}

// passing are prefixes of taints that a controller puts on a node for a while. A DaemonSet's pods tolerate
// those that matter.
var passing = []string{"node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "readiness.k8s.io/", "karpenter.sh/", "ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler"}

// addTaints adds the taints that keep the driver's pod from nodes that get one.
func (p *Plan) addTaints(all []nodes.Node, answers []answer) {
	for i, a := range answers {
		if a.code != "" {
			continue
		}
		for _, t := range all[i].Taints {
			known := t.Effect == "PreferNoSchedule" || slices.Contains(p.Taints, t) ||
				slices.ContainsFunc(tolerated, func(o toleration) bool { return o.covers(t) }) ||
				slices.ContainsFunc(passing, func(prefix string) bool { return strings.HasPrefix(t.Key, prefix) })
			if !known {
				p.Taints = append(p.Taints, t)
			}
		}
	}
	slices.SortFunc(p.Taints, func(a, b nodes.Taint) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Effect, b.Effect))
	})
}

// poolValues is a pool as the chart's values have it.
type poolValues struct {
	Name             string            `yaml:"name"`
	OS               string            `yaml:"os"`
	Driver           string            `yaml:"driver"`
	Precompiled      bool              `yaml:"precompiled,omitempty"`
	Kernel           string            `yaml:"kernel,omitempty"`
	KernelModuleType string            `yaml:"kernelModuleType,omitempty"`
	NodeSelector     map[string]string `yaml:"nodeSelector"`
}

// values are those of the chart that follow from the nodes.
type values struct {
	Image *struct {
		Repository string `yaml:"repository"`
	} `yaml:"image,omitempty"`
	NFD *struct {
		Enabled bool `yaml:"enabled"`
	} `yaml:"nfd,omitempty"`
	Tolerations []toleration `yaml:"tolerations,omitempty"`
	Pools       []poolValues `yaml:"pools"`
}

const valuesHead = `# Written by driver-build fleet. It changes only when the fleet needs something else, and not when nodes come or go.
`

// ErrNoPool says that there is nothing that values could choose.
var ErrNoPool = failure.New(failure.Some, "no node of a cluster gets a driver")

// WriteValues writes values of the chart. Without any pool it writes nothing: the chart would give all nodes
// one driver. The error is ErrNoPool then. repository may be "".
func (p *Plan) WriteValues(w io.Writer, repository string) error {
	if len(p.Pools) == 0 {
		return ErrNoPool
	}
	var v values
	if repository != "" {
		v.Image = &struct {
			Repository string `yaml:"repository"`
		}{repository}
	}
	if !p.NFD {
		v.NFD = &struct {
			Enabled bool `yaml:"enabled"`
		}{}
	}
	if len(p.Taints) > 0 {
		v.Tolerations = slices.Clone(tolerated)
		for _, t := range p.Taints {
			v.Tolerations = append(v.Tolerations, toleration{Key: t.Key, Operator: "Equal", Value: t.Value, Effect: t.Effect})
		}
	}
	for _, pool := range p.Pools {
		v.Pools = append(v.Pools, poolValues{
			Name: pool.Name, OS: pool.System, Driver: pool.Driver, Precompiled: pool.Kernel != "", Kernel: pool.Kernel,
			KernelModuleType: pool.KernelModuleType, NodeSelector: pool.NodeSelector,
		})
	}
	text, err := yaml.Marshal(v)
	if err != nil {
		return fmt.Errorf("write the values: %w", err)
	}
	_, err = io.WriteString(w, valuesHead+string(text))
	return err
}
