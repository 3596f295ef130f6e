// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

var _ = kept(Report{
	Name: "everything-deleted-at-once", Source: "kubeovn/kube-ovn#4243", Kind: interfaces,
	Input: "One file has a VPC, its subnets, a Network, a NetworkAttachmentDefinition and a pod with an interface of each. All are deleted in the order of the file, without waiting.",
	Want:  "All objects go once the pod has gone, and no address is left.",
	Run: func(t *testing.T, l *lab) {
		_, second := l.Nodes()
		tenant := l.Tenant(t, stage.Overlapping("file"))
		definition := &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{
			Namespace: tenant.Namespace.Name, Name: "second", Annotations: map[string]string{annotations.NetworkKey: `{"vpc":"` + tenant.VPC.Name + `","subnet":"net2"}`},
		}}
		l.Make(t, definition)
		pod := tenant.Pod("pod", scene.OnNode(second), scene.WithSelections("second"))
		l.Run(t, pod)
		file := []client.Object{tenant.VPC, tenant.Subnets[0], tenant.Subnets[1], tenant.Network, definition, pod}
		for _, object := range file {
			if err := l.Client.Delete(patience(t), object.DeepCopyObject().(client.Object), client.GracePeriodSeconds(0)); err != nil {
				t.Errorf("delete %T: %v", object, err)
			}
		}
		l.expectFreed(t, pod)
		for _, object := range file {
			if err := l.WaitGone(patience(t), object); err != nil {
				t.Error(err)
			}
		}
		l.expectNoAddress(t, tenant.VPC.Name)
	},
})
