package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"
)

// paused is what the operator's labels say while a driver is replaced.
const paused = "paused-for-driver-upgrade"

const (
	deployPrefix = "nvidia.com/gpu.deploy."
	autoUpgrade  = "nvidia.com/gpu-driver-upgrade-enabled" // annotation: the operator's upgrade controller drains the node
)

// operands are the parts of the operator whose labels (deployPrefix and the name) are paused, with the app
// label of their pods; "" where nothing waits for pods. Those that are optional keep a missing label missing.
var operands = []struct {
	name, app string
	optional  bool
}{
	{"operator-validator", "nvidia-operator-validator", false},
	{"container-toolkit", "nvidia-container-toolkit-daemonset", false},
	{"device-plugin", "nvidia-device-plugin-daemonset", false},
	{"gpu-feature-discovery", "gpu-feature-discovery", false},
	{"dcgm-exporter", "nvidia-dcgm-exporter", false},
	{"dcgm", "nvidia-dcgm", false},
	{"dcgm-exporter-dra", "nvidia-dcgm-exporter-dra", false},
	{"dcgm-dra", "nvidia-dcgm-dra", false},
	{"dra-validator", "", false},
	{"nvsm", "", false},
	{"sandbox-validator", "", false},
	{"sandbox-device-plugin", "", false},
	{"vgpu-device-manager", "", false},
	{"mig-manager", "nvidia-mig-manager", true},
	{"client", "", true},
}

// manager is one run for one node. api is nil in a guest without a cluster.
type manager struct {
	settings
	api *client
}

// uninstall prepares the node for the driver that the pod's other container brings.
func (m manager) uninstall() error {
	if version := hostDriver(); version != "" {
		log.Printf("driver %s is installed on the host", version)
		err := m.label(map[string]string{deployPrefix + "driver": "pre-installed"})
		<-time.After(time.Minute) // for the pod's deletion
		return errors.Join(errors.New("the driver is installed on the host"), err)
	}
	node, err := m.read()
	if err != nil {
		return err
	}
	evict := m.evict && node.Annotations[autoUpgrade] != "true"
	if !loaded() {
		log.Print("no driver is loaded: nothing is evicted")
		if err := cleanRoot(); err != nil {
			return err
		}
		return m.restore(node, evict)
	}
	if err := m.pause(node); err != nil {
		return errors.Join(err, m.restore(node, evict))
	}
	if !m.reinstall && m.digest != "" && storedDigest() == m.digest {
		log.Printf("digest %s is equal: nothing is unloaded", m.digest)
		if err := cleanRoot(); err != nil {
			return err
		}
		return m.restore(node, false)
	}
	if err := m.replace(evict); err != nil {
		return errors.Join(err, m.restore(node, evict))
	}
	return m.restore(node, evict)
}

// replace takes the loaded driver away, after the pods that requested GPUs.
func (m manager) replace(evict bool) error {
	if evict && m.api != nil {
		if err := m.api.cordon(m.node, true); err != nil {
			return err
		}
		if err := m.evictPods(); err != nil {
			return fmt.Errorf("cannot proceed until all GPU pods are drained from the node: %w", err)
		}
	}
	if err := unload(); err != nil {
		return fmt.Errorf("failed to uninstall nvidia driver components: %w", err)
	}
	if err := cleanRoot(); err != nil {
		return err
	}
	log.Print("the driver is unloaded")
	return nil
}

// pause changes the labels that select the operands' nodes, and waits until their pods have ended.
func (m manager) pause(node metadata) error {
	labels := map[string]string{}
	for _, o := range operands {
		value, has := node.Labels[deployPrefix+o.name]
		if has || !o.optional {
			labels[deployPrefix+o.name] = pausedValue(value)
		}
	}
	if err := m.label(labels); err != nil || m.api == nil {
		return err
	}
	for _, o := range operands {
		if o.app == "" {
			continue
		}
		if err := m.api.gone("/namespaces/"+m.namespace+"/pods?labelSelector=app%3D"+o.app+"&fieldSelector=spec.nodeName%3D"+m.node, 5*time.Minute); err != nil {
			return fmt.Errorf("wait for the end of %s: %w", o.app, err)
		}
	}
	return nil
}

// restore makes the node schedulable if that is this program's business, and undoes the pause.
func (m manager) restore(node metadata, uncordon bool) error {
	if uncordon && m.api != nil {
		if err := m.api.cordon(m.node, false); err != nil {
			return err
		}
	}
	labels := map[string]string{}
	for _, o := range operands {
		value, has := node.Labels[deployPrefix+o.name]
		if has || !o.optional {
			labels[deployPrefix+o.name] = resumedValue(value)
		}
	}
	return m.label(labels)
}

func pausedValue(v string) string {
	switch {
	case v == "" || v == "false" || strings.Contains(v, paused):
		return v
	case v == "true":
		return paused
	}
	return v + "_" + paused
}

func resumedValue(v string) string {
	if v == paused {
		return "true"
	}
	return strings.Trim(strings.ReplaceAll(v, paused, ""), "_")
}

func (m manager) label(labels map[string]string) error {
	if m.api == nil {
		return nil
	}
	return m.api.label(m.node, labels)
}

func (m manager) read() (metadata, error) {
	if m.api == nil {
		return metadata{}, nil
	}
	return m.api.readNode(m.node)
}

func storedDigest() string {
	text, err := os.ReadFile("/run/nvidia/nvidia-driver.state")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
