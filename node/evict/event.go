package evict

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Reasons of the Events, which are written for the pod and for the node.
const (
	reasonStarted  = "GPUEvictionStarted"
	reasonBlocked  = "GPUEvictionBlocked"
	reasonFailed   = "GPUEvictionFailed"
	reasonDone     = "GPUEvictionDone"
	reasonRestored = "GPUEvictionPutBack"
)

// sentEvent is an Event that was written. When the same happens again, its count is raised.
type sentEvent struct {
	name, text string
	count      int32
}

// repeatAfter is how long the same message is not repeated.
const repeatAfter = time.Minute

// lastMessage is the latest message for a reason.
type lastMessage struct {
	text string
	at   time.Time
}

// report writes a message to the log and to Events, the same message at most once a minute. Without the
// permission there are no Events, which is logged once.
func (a *Agent) report(ctx context.Context, reason, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if last := a.messages[reason]; last.text == text && time.Since(last.at) < repeatAfter {
		return
	}
	a.messages[reason] = lastMessage{text, time.Now()}
	kind := corev1.EventTypeNormal
	if reason == reasonBlocked || reason == reasonFailed {
		kind = corev1.EventTypeWarning
		a.log.Warn(text, "event", reason) //nolint:sloglint // the sentence is also in the Event
	} else {
		a.log.Info(text, "event", reason) //nolint:sloglint // the sentence is also in the Event
	}
	const most = 1000 // bytes; the API accepts 1024
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for _, on := range []corev1.ObjectReference{
		{APIVersion: "v1", Kind: "Pod", Namespace: a.cfg.Namespace, Name: a.cfg.Pod, UID: types.UID(a.cfg.UID)},
		// The kubelet's Events have the name as UID, too.
		{APIVersion: "v1", Kind: "Node", Name: a.cfg.Node, UID: types.UID(a.cfg.Node)},
	} {
		err := a.event(bounded, on, kind, reason, text)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !a.eventsFailed[on.Kind] {
			a.log.Warn("no Events", "kind", on.Kind, "error", fmt.Sprintf("%v%s", err, missingPermission(err, "create, patch", "events")))
		}
		a.eventsFailed[on.Kind] = err != nil
	}
}

// event writes one Event, or raises the count of the last one when that has the same text.
func (a *Agent) event(ctx context.Context, on corev1.ObjectReference, kind, reason, text string) error {
	namespace := on.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault // where Events about nodes belong
	}
	key := on.Kind + " " + reason
	last, now := a.events[key], metav1.Now()
	if last.text == text {
		patch, err := json.Marshal(object{"count": last.count + 1, "lastTimestamp": now})
		if err != nil {
			return err
		}
		err = a.core.Patch(types.MergePatchType).Namespace(namespace).Resource("events").Name(last.name).Body(patch).Do(ctx).Error()
		if err == nil {
			a.events[key] = sentEvent{last.name, text, last.count + 1}
		}
		if !apierrors.IsNotFound(err) { // the API server deletes Events after an hour
			return err
		}
	}
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s.%x", on.Name, now.UnixNano())},
		InvolvedObject: on, Type: kind, Reason: reason, Message: text, Count: 1, FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: component, Host: a.cfg.Node}, ReportingController: component, ReportingInstance: a.cfg.Pod,
	}
	err := a.core.Post().Namespace(namespace).Resource("events").Body(e).Do(ctx).Error()
	if err == nil {
		a.events[key] = sentEvent{e.Name, text, 1}
	}
	return err
}

const component = "driver-evict"
