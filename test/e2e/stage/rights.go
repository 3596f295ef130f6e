// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/api/refusal"
	"github.com/alioth-net/alioth/test/e2e/scene"
)

// Steal returns a client that has the token of a node's daemon and nothing else.
func (e *Env) Steal(t *testing.T, node string) client.Client {
	t.Helper()
	ctx := Within(t, Patience)
	var pods corev1.PodList
	if err := e.Client.List(ctx, &pods, client.MatchingFields{"spec.nodeName": node}); err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Spec.ServiceAccountName != "alioth-cnid" {
			continue
		}
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
		}}
		account := &corev1.ServiceAccount{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Spec.ServiceAccountName},
		}
		if err := e.Client.SubResource("token").Create(ctx, account, request); err != nil {
			t.Fatal(err)
		}
		config := rest.AnonymousClientConfig(e.Lab.Config())
		config.BearerToken = request.Status.Token
		thief, err := client.New(config, client.Options{Scheme: e.Client.Scheme()})
		if err != nil {
			t.Fatal(err)
		}
		return thief
	}
	t.Fatalf("node %s has no alioth-cnid", node)
	return nil
}

// Bind gives a person a ClusterRole's rights in a namespace.
func (e *Env) Bind(t *testing.T, namespace, person, role string) {
	t.Helper()
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: person + "-" + role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: person}},
	}
	if err := e.Create(Within(t, Patience), binding); err != nil { // it goes with its namespace
		t.Fatal(err)
	}
}

// PersonWith returns a scene with the rights of the person NameWith, who has a ClusterRole in a
// namespace and nothing else. Readers of pods are among the persons with the role.
func (e *Env) PersonWith(t *testing.T, namespace, role string) *scene.Scene {
	t.Helper()
	name := NameWith(namespace, role)
	e.Bind(t, namespace, name, role)
	config := e.Lab.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
	admin, err := scene.New(config, e.Lab)
	if err != nil {
		t.Fatal(err)
	}
	err = scene.Until(Within(t, Patience), "the rights of "+name, func(ctx context.Context) (bool, string, error) {
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

// NameWith returns the name of the person with a role in a namespace.
func NameWith(namespace, role string) string { return role + "-of-" + namespace }

// Grant makes a HostAccess for the time of a test, and returns once pods of the namespace that ask
// for the granted access are let in.
func (e *Env) Grant(t *testing.T, access *v1alpha1.HostAccess, namespace string, asking ...scene.PodOption) {
	t.Helper()
	e.Make(t, access)
	err := scene.Until(
		Within(t, Patience),
		"HostAccess "+access.Name+" to be in force",
		func(ctx context.Context) (bool, string, error) {
			err := e.Client.Create(ctx, scene.Pod(namespace, "granted", asking...), client.DryRunAll)
			if refusal.MayPass(err) {
				return false, err.Error(), nil
			}
			return err == nil, "", err
		},
	)
	if err != nil {
		t.Fatal(err)
	}
}
