// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/kinds/core"
	"github.com/alioth-net/alioth/store/kinds/outside"
	"github.com/alioth-net/alioth/store/kinds/vpcs"
	"github.com/alioth-net/alioth/store/rules/allocation"
)

// The operator uses these kinds instead of the kinds of the same name in package kinds: it keeps
// the row of an address whose object was deleted while its pod lives, and writes endpoints of pods.
var (
	Pod     = podWithEndpoint()
	Address = keptAddress()
)

// keptAsRows lists the kinds that informers keep as rows instead of objects. These kinds have many
// objects, and no controller reads the objects from the informers.
var keptAsRows = []*descriptor.Kind{
	Pod, Address, outside.AttachmentClaim.Kind, vpcs.VNIClaim.Kind, core.Namespace.Kind,
}

func keptAddress() *descriptor.Kind {
	kind := *vpcs.Address.Kind
	kind.Rows = keptRows{kind.Rows}
	return &kind
}

// keptRows has the rows of Addresses, and keeps rows of deleted ones while their pods live.
type keptRows struct{ descriptor.Rows }

// Put implements descriptor.Rows.
func (k keptRows) Put(tx store.Tx, row any) error {
	address, ok := row.(*store.Address)
	if !ok {
		return k.Rows.Put(tx, row)
	}
	return allocation.Put(tx, address)
}

// Delete implements descriptor.Rows.
func (keptRows) Delete(tx store.Tx, id descriptor.ID) error {
	_, err := allocation.Remove(tx, id.Name, id.UID)
	return err
}

func podWithEndpoint() *descriptor.Kind {
	kind := *core.Pod.Kind
	kind.Rows = endpointRows{kind.Rows}
	return &kind
}

// endpointRows has the rows of pods with their endpoints.
type endpointRows struct{ descriptor.Rows }

// Row implements descriptor.Rows.
func (e endpointRows) Row(object kube.Object) (any, error) {
	row, err := e.Rows.Row(object)
	if pod, ok := row.(*store.Pod); ok {
		pod.Endpoint = core.PodEndpoint(object.(*corev1.Pod))
	}
	return row, err
}
