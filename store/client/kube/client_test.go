// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	acnv1alpha1 "github.com/alioth-net/alioth/api/acn/v1alpha1"
	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/test/api/apiserver"
)

var server apiserver.Shared

func TestMain(m *testing.M) { os.Exit(server.Run(m)) }

func newClient(t *testing.T, add ...func(*runtime.Scheme) error) *kube.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, f := range add {
		if err := f(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := kube.New(server.Config(t), scheme)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestClient_RealAPI_EachRequestServed(t *testing.T) {
	c := newClient(t, corev1.AddToScheme, v1alpha1.AddToScheme)
	vpc := &v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: "blue"}, Spec: v1alpha1.VPCSpec{CIDRs: []string{"10.0.0.0/8"}}}
	if err := c.Create(t.Context(), vpc); err != nil {
		t.Fatal(err)
	}
	if vpc.UID == "" {
		t.Error("the answer to a creation is not read")
	}
	if err := c.Create(t.Context(), &v1alpha1.VPC{ObjectMeta: vpc.ObjectMeta, Spec: vpc.Spec}); err == nil {
		t.Error("an object is created twice")
	}
	if err := c.Patch(t.Context(), vpc, types.MergePatchType, []byte(`{"status":{"vni":7}}`), "status"); err != nil {
		t.Fatal(err)
	}
	now := &v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: "blue"}}
	if err := c.Get(t.Context(), now); err != nil || now.Status.VNI != 7 || now.UID != vpc.UID {
		t.Errorf("after the patch: %+v (%v)", now, err)
	}
	vpc.Spec.CIDRs = []string{"10.0.0.0/9"}
	if err := c.Update(t.Context(), vpc); !apierrors.IsConflict(err) {
		t.Errorf("an update that is late: %v, want a conflict", err)
	}
	now.Labels = map[string]string{"a": "b"}
	if err := c.Update(t.Context(), now); err != nil {
		t.Error(err)
	}
	var list v1alpha1.VPCList
	if err := c.List(t.Context(), &list, "", "metadata.name=blue"); err != nil || len(list.Items) != 1 || list.Items[0].Labels["a"] != "b" {
		t.Errorf("list: %+v (%v)", list.Items, err)
	}
	if err := c.Delete(t.Context(), vpc, "another"); !apierrors.IsConflict(err) {
		t.Errorf("deleting what has another UID: %v, want a conflict", err)
	}
	if err := c.Delete(t.Context(), vpc, vpc.UID); err != nil {
		t.Error(err)
	}
	if err := c.Get(t.Context(), &v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: "blue"}}); !apierrors.IsNotFound(err) {
		t.Errorf("what is deleted: %v, want that it is not found", err)
	}
}

func TestStream_KindAndNamespace_OnlyThoseReturned(t *testing.T) {
	c := newClient(t, corev1.AddToScheme)
	for namespace, want := range map[string]int{"default": 1, "kube-public": 0} {
		stream, err := c.Stream(t.Context(), &corev1.Service{}, namespace, map[string]string{"fieldSelector": "metadata.name=kubernetes"})
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		var list corev1.ServiceList
		if err := json.NewDecoder(stream).Decode(&list); err != nil || len(list.Items) != want {
			t.Errorf("namespace %s: %d services, want %d (%v)", namespace, len(list.Items), want, err)
		}
	}
	if _, err := c.Stream(t.Context(), &corev1.Service{}, "", map[string]string{"watch": "true", "resourceVersion": "1", "fieldSelector": "no.such=field"}); !apierrors.IsBadRequest(
		err,
	) {
		t.Errorf("a selector that there isn't: %v, want that the request is bad", err)
	}
}

func TestClient_KindNotServed_RefusalNamesIt(t *testing.T) {
	scheme := func(s *runtime.Scheme) error {
		absent := schema.GroupVersion{Group: "absent.example", Version: "v1"}
		s.AddKnownTypes(absent, &v1alpha1.VPC{})
		metav1.AddToGroupVersion(s, absent)
		return corev1.AddToScheme(s)
	}
	err := newClient(t, scheme).Get(t.Context(), &v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: "blue"}})
	if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "vpcs.absent.example") {
		t.Errorf("error %v", err)
	}
}

func TestClient_KindNotInScheme_NoRequest(t *testing.T) {
	c := newClient(t, corev1.AddToScheme)
	vpc := &v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: "blue"}}
	for name, err := range map[string]error{
		"get": c.Get(t.Context(), vpc), "create": c.Create(t.Context(), vpc), "delete": c.Delete(t.Context(), vpc, ""),
		"list": c.List(t.Context(), &v1alpha1.VPCList{}, "", ""), "nameless": c.Get(t.Context(), &corev1.Node{}),
	} {
		if err == nil || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
			t.Errorf("%s: error %v, want one from before the request", name, err)
		}
	}
}

func TestClient_IrregularPlural_FoundInAPI(t *testing.T) {
	c := newClient(t, multitenancyv1alpha1.AddToScheme, acnv1alpha1.AddToScheme)
	meta := metav1.ObjectMeta{Name: "node-a"}
	for _, object := range []kube.Object{&multitenancyv1alpha1.NodeInfo{ObjectMeta: meta}, &acnv1alpha1.NodeInfo{ObjectMeta: meta}} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Errorf("%T: %v", object, err)
			continue
		}
		if err := c.Delete(t.Context(), object, object.GetUID()); err != nil {
			t.Errorf("%T: %v", object, err)
		}
	}
	for _, list := range []kube.List{&multitenancyv1alpha1.NodeInfoList{}, &acnv1alpha1.NodeInfoList{}} {
		if err := c.List(t.Context(), list, "", ""); err != nil {
			t.Errorf("%T: %v", list, err)
		}
	}
}
