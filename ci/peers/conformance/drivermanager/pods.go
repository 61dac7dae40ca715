package main

import (
	"errors"
	"fmt"
	"log"
	"net/http"
	"slices"
	"strings"
	"time"
)

// pod is the part of a pod that decides whether it is evicted.
type pod struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Containers []struct {
			Resources struct {
				Limits, Requests map[string]any
			} `json:"resources"`
		} `json:"containers"`
		Volumes []struct {
			EmptyDir *struct{} `json:"emptyDir"`
		} `json:"volumes"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
	} `json:"status"`
}

func (c *client) pods(path string) ([]pod, error) {
	var list struct {
		Items []pod `json:"items"`
	}
	return list.Items, c.do(http.MethodGet, path, "", nil, &list)
}

// wantsGPU says whether a container of the pod requests a GPU or a part of one.
func (p pod) wantsGPU() bool {
	for _, c := range p.Spec.Containers {
		for _, list := range []map[string]any{c.Resources.Limits, c.Resources.Requests} {
			for name := range list {
				if strings.HasPrefix(name, "nvidia.com/gpu") || strings.HasPrefix(name, "nvidia.com/mig-") {
					return true
				}
			}
		}
	}
	return false
}

func (p pod) controller() string {
	for _, o := range p.Metadata.OwnerReferences {
		if o.Controller {
			return o.Kind
		}
	}
	return ""
}

// evictPods evicts the pods that requested GPUs, as `kubectl drain --ignore-daemonsets` would, and waits for
// their end.
func (m manager) evictPods() error {
	list, err := m.api.pods("/pods?fieldSelector=spec.nodeName%3D" + m.node)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(p pod) bool {
		return !p.wantsGPU() || p.controller() == "DaemonSet" || p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed"
	})
	for _, p := range list {
		name := p.Metadata.Namespace + "/" + p.Metadata.Name
		if p.controller() == "" && !m.force {
			return fmt.Errorf("pod %s has no controller", name)
		}
		for _, v := range p.Spec.Volumes {
			if v.EmptyDir != nil && !m.emptyDirs {
				return fmt.Errorf("pod %s has an emptyDir volume", name)
			}
		}
	}
	for _, p := range list {
		log.Printf("evicting pod %s/%s", p.Metadata.Namespace, p.Metadata.Name)
		if err := m.api.evict(p.Metadata); err != nil {
			return err
		}
	}
	for _, p := range list {
		if err := m.api.gone("/namespaces/"+p.Metadata.Namespace+"/pods?fieldSelector=metadata.name%3D"+p.Metadata.Name, time.Hour); err != nil {
			return err
		}
	}
	return nil
}

// evict evicts one pod; it asks again while a disruption budget forbids that.
func (c *client) evict(p metadata) error {
	body := map[string]any{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": map[string]string{"name": p.Name, "namespace": p.Namespace}}
	const limit = 5 * time.Minute
	for end := time.Now().Add(limit); ; <-time.After(5 * time.Second) {
		err := c.do(http.MethodPost, "/namespaces/"+p.Namespace+"/pods/"+p.Name+"/eviction", "application/json", body, nil)
		var r refused
		switch {
		case err == nil || errors.As(err, &r) && r.code == http.StatusNotFound:
			return nil
		case r.code != http.StatusTooManyRequests:
			return err
		case time.Now().After(end):
			return fmt.Errorf("pod %s/%s was not evicted within %s: %w", p.Namespace, p.Name, limit, err)
		}
	}
}
