// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// TestDefinitionOfOthers_WithoutGrant_Refused has a tenant select definitions of another one: by
// odd names, without a grant, and with a grant whose lender then changes the lent definition.
func TestDefinitionOfOthers_WithoutGrant_Refused(t *testing.T) {
	t.Parallel()
	e := start(t)
	f := e.forger(t)
	lender := f.victim.Namespace.Name
	lent := &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{
		Namespace: lender, Name: "lent", Annotations: map[string]string{annotations.NetworkKey: `{"vpc":"` + f.victim.VPC.Name + `"}`},
	}}
	e.Make(t, lent)
	grant := &v1alpha1.DelegationGrant{ObjectMeta: metav1.ObjectMeta{Name: stage.Unique("lent")}, Spec: v1alpha1.DelegationGrantSpec{
		Namespaces: []string{f.Namespace.Name}, FromNamespaces: []string{lender}, Plugins: []string{"bridge"},
	}}
	wantDenied(t, "a tenant's DelegationGrant", f.editor.Client.Create(stage.Within(t, stage.Patience), grant.DeepCopy()), "cannot create resource")
	for name, tc := range map[string]struct {
		option       scene.PodOption
		reason, text string
	}{
		"path":      {scene.WithSelections("../" + lender + "/lent"), v1alpha1.InterfacesInvalidReason, "is no name"},
		"slashes":   {scene.WithSelections(`[{"name":"lent","namespace":"` + lender + `/../` + lender + `"}]`), v1alpha1.InterfacesInvalidReason, "is no name of a namespace"},
		"encoded":   {scene.WithSelections(lender + "%2flent"), v1alpha1.InterfacesInvalidReason, "is no name"},
		"not-lent":  {scene.WithSelections(lender + "/lent"), v1alpha1.TenantNotAllowedReason, "is not of the pod's tenant"},
		"missing":   {scene.WithSelections(lender + "/none"), v1alpha1.TenantNotAllowedReason, "is not of the pod's tenant"},
		"as-eth0":   {scene.WithDefaultNetwork(lender + "/lent"), v1alpha1.TenantNotAllowedReason, "is not of the pod's tenant"},
		"eth0-path": {scene.WithDefaultNetwork("../" + lender + "/lent"), v1alpha1.InterfacesInvalidReason, "annotation v1.multus-cni.io/default-network"},
	} {
		pod := f.Pod(name, tc.option)
		f.create(t, pod)
		f.awaitRefusal(t, pod, tc.reason, tc.text)
	}
	// A grant permits the selection, and the VPC is still the victim's.
	e.Make(t, grant)
	pod := f.Pod("lent", scene.WithSelections(lender+"/lent"))
	f.create(t, pod)
	f.awaitRefusal(t, pod, v1alpha1.NetworkNotReadyReason, "does not allow tenant")
	// The lender changes the definition into one for a granted plugin. It would run as root.
	changed := lent.DeepCopy()
	changed.Annotations, changed.Spec.Config = nil, `{"cniVersion":"1.0.0","type":"bridge","bridge":"hostile0"}`
	if err := e.Client.Patch(stage.Within(t, stage.Patience), changed, client.MergeFrom(lent)); err != nil {
		t.Fatal(err)
	}
	f.awaitRefusal(t, pod, v1alpha1.DelegationNotGrantedReason, "pods of tenants")
	// Neither does it for a pod of a namespace without a tenant.
	plain := e.PlainNamespace(t)
	e.Make(t, &v1alpha1.DelegationGrant{ObjectMeta: metav1.ObjectMeta{Name: stage.Unique("plain")}, Spec: v1alpha1.DelegationGrantSpec{
		Namespaces: []string{plain}, FromNamespaces: []string{lender}, Plugins: []string{"bridge"},
	}})
	other := scene.Pod(plain, "borrower", scene.WithSelections(lender+"/lent"))
	e.Make(t, other)
	e.ExpectRefused(t, other, v1alpha1.DelegationNotGrantedReason, "definitions of tenants run no CNI plugins")
}
