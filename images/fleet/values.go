package fleet

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/distros/failure"
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

func (t toleration) covers(taint Taint) bool {
	return t.Key == taint.Key && (t.Effect == "" || t.Effect == taint.Effect) &&
		(t.Operator == "Exists" || t.Value == taint.Value)
}

// passing are prefixes of taints that a controller puts on a node for a while. A DaemonSet's pods
// tolerate those that matter.
var passing = []string{
	"node.kubernetes.io/",
	"node.cloudprovider.kubernetes.io/",
	"readiness.k8s.io/",
	"karpenter.sh/",
	"ToBeDeletedByClusterAutoscaler",
	"DeletionCandidateOfClusterAutoscaler",
}

// keepsOff reports whether the taint keeps the driver's pod from a node.
func (t Taint) keepsOff() bool {
	return t.Effect != "PreferNoSchedule" &&
		!slices.ContainsFunc(tolerated, func(o toleration) bool { return o.covers(t) }) &&
		!slices.ContainsFunc(passing, func(prefix string) bool { return strings.HasPrefix(t.Key, prefix) })
}

// values are those of the chart that follow from the nodes.
type values struct {
	Image       map[string]string `yaml:"image,omitempty"`
	NFD         map[string]bool   `yaml:"nfd,omitempty"`
	Managed     bool              `yaml:"managedDrivers,omitempty"`
	Tolerations []toleration      `yaml:"tolerations,omitempty"`
	Pools       []Pool            `yaml:"pools"`
}

const valuesHead = `# Written by driver-build fleet. It changes only when the fleet needs something else, and not when nodes come or go.
`

// WriteValues writes values of the chart. Without any pool it writes nothing, and that is an error:
// the chart would give all nodes one driver. repository may be "".
func (r *Recommendation) WriteValues(w io.Writer, repository string) error {
	if len(r.Pools) == 0 {
		return failure.New(failure.Some, "no node of a cluster gets a driver")
	}
	v := values{Pools: r.Pools, Managed: r.Managed}
	if repository != "" {
		v.Image = map[string]string{"repository": repository}
	}
	if !r.NFD {
		v.NFD = map[string]bool{"enabled": false}
	}
	if len(r.Taints) > 0 {
		v.Tolerations = slices.Clone(tolerated)
		for _, t := range r.Taints {
			v.Tolerations = append(
				v.Tolerations,
				toleration{Key: t.Key, Operator: "Equal", Value: t.Value, Effect: t.Effect},
			)
		}
	}
	text, err := yaml.Marshal(v)
	if err != nil {
		return fmt.Errorf("write the values: %w", err)
	}
	_, err = io.WriteString(w, valuesHead+string(text))
	return err
}
