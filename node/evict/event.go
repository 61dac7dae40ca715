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

// Reasons of Events, on the pod and on the node.
const (
	reasonStarted  = "GPUEvictionStarted"
	reasonBlocked  = "GPUEvictionBlocked"
	reasonFailed   = "GPUEvictionFailed"
	reasonDone     = "GPUEvictionDone"
	reasonRestored = "GPUEvictionPutBack"
)

// told is an Event that was written: when the same happens again its count is raised.
type told struct {
	name, text string
	count      int32
}

// repeat is how soon the same thing is not told again.
const repeat = time.Minute

// said is what was told last for a reason.
type said struct {
	text string
	at   time.Time
}

// tell says something in the log and in Events, the same thing once a minute. Events are for people: without permission there are
// none, which is said once.
func (a *Agent) tell(ctx context.Context, reason, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if last := a.said[reason]; last.text == text && time.Since(last.at) < repeat {
		return
	}
	a.said[reason] = said{text, time.Now()}
	kind := corev1.EventTypeNormal
	if reason == reasonBlocked || reason == reasonFailed {
		kind = corev1.EventTypeWarning
		a.say("warning: %s", text)
	} else {
		a.say("%s", text)
	}
	const most = 1000 // bytes; the API takes 1024
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for _, on := range []corev1.ObjectReference{
		{APIVersion: "v1", Kind: "Pod", Namespace: a.cfg.Namespace, Name: a.cfg.Pod, UID: types.UID(a.cfg.UID)},
		{APIVersion: "v1", Kind: "Node", Name: a.cfg.Node, UID: types.UID(a.cfg.Node)}, // the UID that the kubelet's Events have, too
	} {
		err := a.event(bounded, on, kind, reason, text)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !a.silent[on.Kind] {
			a.say("warning: there are no Events of the %s: %v%s", on.Kind, err, rights(err, "create, patch", "events"))
		}
		a.silent[on.Kind] = err != nil
	}
}

// event writes one Event, or raises the count of the last one when that said the same.
func (a *Agent) event(ctx context.Context, on corev1.ObjectReference, kind, reason, text string) error {
	namespace := on.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault // where Events of nodes belong
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
			a.events[key] = told{last.name, text, last.count + 1}
		}
		if !apierrors.IsNotFound(err) { // they are kept for an hour
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
		a.events[key] = told{e.Name, text, 1}
	}
	return err
}

const component = "driver-evict"
