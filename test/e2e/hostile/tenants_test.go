// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// answerTime is how long a probe that must be answered is repeated.
var answerTime = stage.AnswerTime

// silenceTime is how long a probe that must not be answered is repeated.
const silenceTime = 1500 * time.Millisecond

// adminOf returns a scene with the rights of a person who has Kubernetes' role admin in a
// namespace, and nothing else.
func (e *env) adminOf(t *testing.T, namespace string) *scene.Scene {
	t.Helper()
	return e.PersonWith(t, namespace, "admin")
}

// wantDenied requires that err is a refusal by rights, a policy or a schema, with a reason.
func wantDenied(t *testing.T, what string, err error, why string) {
	t.Helper()
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), why) {
		t.Errorf("%s: %v, want a refusal with %q", what, err, why)
	}
}

// wantRefused requires that the API server refuses a person an object, with a reason.
func wantRefused(t *testing.T, who *scene.Scene, object client.Object, why string) {
	t.Helper()
	err := who.Client.Create(stage.Within(t, stage.Patience), object)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), why) {
		t.Errorf("%T %s: %v, want it forbidden with %q", object, object.GetName(), err, why)
	}
}

// awaitEvent waits for an event about an object, with a certain text in its message.
func (e *env) awaitEvent(t *testing.T, object client.Object, reason, text string) {
	t.Helper()
	err := scene.Until(stage.Within(t, stage.Patience), "event "+reason, func(ctx context.Context) (bool, string, error) {
		events, err := e.Events(ctx, object)
		found := slices.ContainsFunc(events, func(event corev1.Event) bool {
			return event.Reason == reason && strings.Contains(event.Message, text)
		})
		return found, fmt.Sprint(len(events), " events"), err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// nodeAsks asks from the network of a node.
func (e *env) nodeAsks(ctx context.Context, node string, timeout time.Duration, targets ...string) ([]report.Probe, error) {
	out, err := e.Lab.NodeExec(ctx, node, append([]string{e.Tool, "probe", "--timeout", timeout.String()}, targets...)...)
	if err != nil {
		return nil, fmt.Errorf("on %s: %w: %s", node, err, out)
	}
	results, err := scene.ParseLines[report.Probe](out)
	if err == nil && len(results) != len(targets) {
		err = fmt.Errorf("%d results of %d", len(results), len(targets))
	}
	return results, err
}

// awaitAnswer waits until only the server of that name answers a node's requests.
func (e *env) awaitAnswer(t *testing.T, node, name string, targets ...string) {
	t.Helper()
	err := scene.Until(stage.Within(t, stage.Patience), name+" to answer "+node, func(ctx context.Context) (bool, string, error) {
		results, err := e.nodeAsks(ctx, node, answerTime, targets...)
		other := slices.ContainsFunc(results, func(r report.Probe) bool { return !r.OK || r.Name != name })
		return err == nil && !other, fmt.Sprintf("%+v", results), err
	})
	if err != nil {
		t.Error(err)
	}
}
