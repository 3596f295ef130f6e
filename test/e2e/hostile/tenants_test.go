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
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

const (
	// answerTime is how long a probe that must be answered is repeated, silenceTime
	// one that must not be.
	answerTime  = 10 * time.Second
	silenceTime = 1500 * time.Millisecond
)

// adminOf returns what a person does who has Kubernetes' role admin in a namespace,
// and nothing else.
func (e *env) adminOf(t *testing.T, namespace string) *scene.Scene {
	t.Helper()
	return e.personWith(t, namespace, "admin")
}

// bind gives a person a ClusterRole's rights in a namespace.
func (e *env) bind(t *testing.T, namespace, person, role string) {
	t.Helper()
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: person + "-" + role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: person}},
	}
	if err := e.Create(stage.Within(t, stage.Patience), binding); err != nil { // it goes with its namespace
		t.Fatal(err)
	}
}

// personWith returns what the person nameWith does, who has a ClusterRole in a namespace
// and nothing else. Readers of pods are among those who have the role.
func (e *env) personWith(t *testing.T, namespace, role string) *scene.Scene {
	t.Helper()
	name := nameWith(namespace, role)
	e.bind(t, namespace, name, role)
	config := e.Lab.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
	admin, err := scene.New(config, e.Lab)
	if err != nil {
		t.Fatal(err)
	}
	err = scene.Until(stage.Within(t, stage.Patience), "the rights of "+name, func(ctx context.Context) (bool, string, error) {
		err := admin.Client.List(ctx, &corev1.PodList{}, client.InNamespace(namespace))
		if apierrors.IsForbidden(err) {
			return false, err.Error(), nil
		}
		return err == nil, "", err
	})
	if err != nil {
		t.Fatal(err)
	}
	return admin
}

// nameWith is the name of the person with a role in a namespace.
func nameWith(namespace, role string) string { return role + "-of-" + namespace }

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
