package kubernetes

import (
	"context"
	"fmt"
	"sync"

	"github.com/driver-container/driver-container/node/status"
)

// SafeLoad asks for a node without GPU users by status.SafeLoadAnnotation. It is a node.SafeLoad.
type SafeLoad struct {
	client    *Client
	node, pod string

	mu    sync.Mutex
	asked bool // the annotation was set, as far as is known
	used  bool // Ask was called
}

// NewSafeLoad returns the handshake for one start of one pod on one node.
func NewSafeLoad(c *Client, node, pod string) *SafeLoad {
	return &SafeLoad{client: c, node: node, pod: pod}
}

// String names the handshake in messages.
func (s *SafeLoad) String() string {
	return fmt.Sprintf("safe load (annotation %s of node %s)", status.SafeLoadAnnotation, s.node)
}

// Ask sets the annotation at the first call, and later says whether it was removed. It replaces the
// value of another pod: the caller has the node's lock, so the other pod is gone or does not have
// the lock yet.
func (s *SafeLoad) Ask(ctx context.Context) (granted bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = true
	if s.pod == "" {
		return false, noCluster("the name of the pod is not known: set POD_NAME from metadata.name")
	}
	if s.asked {
		value, err := s.client.Annotation(ctx, s.node, status.SafeLoadAnnotation)
		if err != nil || value == "" || value == s.pod {
			return err == nil && value == "", err
		}
	}
	if err := s.client.Annotate(ctx, s.node, status.SafeLoadAnnotation, s.pod); err != nil {
		return false, err
	}
	s.asked = true
	return false, nil
}

// Withdraw removes the annotation if it has this pod's name.
func (s *SafeLoad) Withdraw(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = false
	return s.client.RemoveAnnotation(ctx, s.node, status.SafeLoadAnnotation, s.pod)
}

// Tidy removes the annotation that a container of this pod left when it was killed during the wait.
// It does nothing after a call of Ask.
func (s *SafeLoad) Tidy(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used || s.pod == "" {
		return nil
	}
	return s.client.RemoveAnnotation(ctx, s.node, status.SafeLoadAnnotation, s.pod)
}
