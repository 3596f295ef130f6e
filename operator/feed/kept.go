// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds"
)

// kept is the part of an object that the store takes. For the kinds in keptAsRows the informers
// keep it in place of the object, which would be in memory a second time (docs/design/140). A read
// of such an object from the informers is an error.
type kept struct {
	id      descriptor.ID
	version string
	// row is nil for an object without a row; err tells why it can't be read.
	row any
	err error
	// deleting is true for an object that is being deleted.
	deleting bool
}

// GetObjectMeta implements metav1.ObjectMetaAccessor. Informers identify objects by its result.
func (k *kept) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{
		Namespace:       k.id.Namespace,
		Name:            k.id.Name,
		UID:             types.UID(k.id.UID),
		ResourceVersion: k.version,
	}
}

// Keep returns the part of an object that the informers keep. It is their transform.
func Keep(object any) (any, error) {
	typed, ok := object.(client.Object)
	if !ok {
		return object, nil
	}
	if kind := rowKinds[reflect.TypeOf(object)]; kind != nil {
		return keep(kind, typed), nil
	}
	return kinds.Trim(object)
}

// rowKinds are keptAsRows by the type of their objects.
var rowKinds = func() map[reflect.Type]*descriptor.Kind {
	all := map[reflect.Type]*descriptor.Kind{}
	for _, kind := range keptAsRows {
		all[reflect.TypeOf(kind.Object)] = kind
	}
	return all
}()

func keep(kind *descriptor.Kind, object client.Object) *kept {
	k := &kept{
		id:       descriptor.IDOf(object),
		version:  object.GetResourceVersion(),
		deleting: object.GetDeletionTimestamp() != nil,
	}
	if k.row, k.err = kind.Row(object); k.err != nil {
		k.err = fmt.Errorf("read %s: %w", kind.Name, k.err)
	}
	return k
}

// take returns the part of an informer's object that the store takes, nil for an unknown object.
func take(kind *descriptor.Kind, object any) *kept {
	if unknown, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	switch object := object.(type) {
	case *kept:
		return object
	case client.Object:
		return keep(kind, object)
	}
	return nil
}
