// Command labels gives nodes the labels of a NodeFeatureRule with the code of Node Feature Discovery: it
// reads the PCI devices of each node from a folder that stands for /sys, as nfd-worker does, and evaluates
// the rules, as nfd-master does. It prints the labels of all nodes as JSON, by folder. With PCI, the
// configuration of the source of PCI devices as JSON, the labels of that source are among them.
//
//	labels RULES.yaml PCI SYS...
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"

	nfd "sigs.k8s.io/node-feature-discovery/api/nfd/v1alpha1"
	"sigs.k8s.io/node-feature-discovery/pkg/apis/nfd/nodefeaturerule"
	"sigs.k8s.io/node-feature-discovery/pkg/apis/nfd/validate"
	"sigs.k8s.io/node-feature-discovery/pkg/utils/hostpath"
	"sigs.k8s.io/node-feature-discovery/source"
	"sigs.k8s.io/node-feature-discovery/source/pci"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "labels:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 3 {
		return errors.New("usage: labels RULES.yaml PCI SYS")
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var object nfd.NodeFeatureRule
	if err := yaml.UnmarshalStrict(text, &object); err != nil {
		return err
	}
	if object.APIVersion != nfd.SchemeGroupVersion.String() || object.Kind != "NodeFeatureRule" {
		return fmt.Errorf("%s is a %s of %s", args[0], object.Kind, object.APIVersion)
	}
	all := map[string]map[string]string{}
	for _, sys := range args[2:] {
		if all[sys], err = labels(&object, sys); err != nil {
			return fmt.Errorf("%s: %w", sys, err)
		}
		if args[1] == "" {
			continue
		}
		if err := addPCI(all[sys], args[1]); err != nil {
			return fmt.Errorf("%s: %w", sys, err)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(all)
}

// addPCI adds the labels of the source of PCI devices, with the prefix that nfd-worker and nfd-master give them.
func addPCI(labels map[string]string, config string) error {
	var parsed pci.Config
	if err := yaml.UnmarshalStrict([]byte(config), &parsed); err != nil {
		return err
	}
	source.GetConfigurableSource(pci.Name).SetConfig(&parsed)
	own, err := source.GetLabelSource(pci.Name).GetLabels()
	for name, value := range own {
		labels[nfd.FeatureLabelNs+"/"+pci.Name+"-"+name] = fmt.Sprint(value)
	}
	return err
}

// labels returns the labels of a node. The rules see what earlier rules gave, as in nfd-master.
func labels(object *nfd.NodeFeatureRule, sys string) (map[string]string, error) {
	hostpath.SysfsDir = hostpath.HostDir(sys)
	if err := source.GetFeatureSource(pci.Name).Discover(); err != nil {
		return nil, err
	}
	features := source.GetAllFeatures()
	given := map[string]string{}
	for i := range object.Spec.Rules {
		out, err := nodefeaturerule.Execute(&object.Spec.Rules[i], features, true)
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", object.Spec.Rules[i].Name, err)
		}
		for name, value := range out.Labels {
			if err := validate.Label(name, value); err != nil {
				return nil, fmt.Errorf("label %s=%s: %w", name, value, err)
			}
		}
		maps.Copy(given, out.Labels)
		features.InsertAttributeFeatures(nfd.RuleBackrefDomain, nfd.RuleBackrefFeature, out.Labels)
		features.InsertAttributeFeatures(nfd.RuleBackrefDomain, nfd.RuleBackrefFeature, out.Vars)
	}
	return given, nil
}
