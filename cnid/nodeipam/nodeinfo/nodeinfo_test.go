// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeinfo_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	acnv1alpha1 "github.com/alioth-net/alioth/api/acn/v1alpha1"
	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/cnid/internal/testrows"
	"github.com/alioth-net/alioth/cnid/nodeipam/nodeinfo"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/kube"
)

// objects are the objects of an API server, by their Go type. fails is the number of requests
// that fail first.
type objects struct {
	mu    sync.Mutex
	byKey map[reflect.Type]kube.Object
	fails int
	wrote chan struct{}
}

func (o *objects) Create(_ context.Context, obj kube.Object) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.byKey[reflect.TypeOf(obj)] = obj.DeepCopyObject().(kube.Object)
	return nil
}

func (o *objects) Patch(_ context.Context, obj kube.Object, _ types.PatchType, data []byte, subresource ...string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fails > 0 {
		o.fails--
		return errors.New("no connection")
	}
	key := reflect.TypeOf(obj)
	if o.byKey[key] == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "nodeinfo"}, obj.GetName())
	}
	err := json.Unmarshal(data, o.byKey[key])
	if len(subresource) > 0 {
		select {
		case o.wrote <- struct{}{}:
		default:
		}
	}
	return err
}

// in reads the object of a type.
func in[T any](t *testing.T, o *objects) T {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	var object T
	if found := o.byKey[reflect.TypeOf(&object)]; found != nil {
		return *found.DeepCopyObject().(any).(*T)
	}
	return object
}

// await waits until a condition holds after a write.
func await(t *testing.T, o *objects, holds func() bool) {
	t.Helper()
	for !holds() {
		select {
		case <-o.wrote:
		case <-t.Context().Done():
			t.Fatal("the NodeInfo is not written")
		}
	}
}

func TestNodeInfo_NodeChanges_Followed(t *testing.T) {
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	o := &objects{byKey: map[reflect.Type]kube.Object{}, wrote: make(chan struct{}, 1), fails: 1}
	var mu sync.Mutex
	devices := []string{"00:0d:3a:00:00:01"}
	w := nodeinfo.New(nodeinfo.Config{
		Node: "node1", API: o, Store: s, Machine: "m-1", Every: time.Millisecond, Log: slog.New(slog.DiscardHandler),
		Groups: []string{multitenancyv1alpha1.GroupVersion.Group, acnv1alpha1.GroupVersion.Group},
		Devices: func() ([]string, error) {
			mu.Lock()
			defer mu.Unlock()
			return devices, nil
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { w.Run(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	put := func(label bool) {
		err := s.Update(func(tx store.Tx) error {
			return store.PutNode(tx, &store.Node{Meta: testrows.Meta(fmt.Sprintf("uid-%t", label)), Name: "node1", NodeIPAM: label})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	put(false)
	w.Look()
	if o.mu.Lock(); len(o.byKey) != 0 {
		t.Error("a node without the label has a NodeInfo")
	}
	o.mu.Unlock()
	put(true)
	await(t, o, func() bool { return len(in[multitenancyv1alpha1.NodeInfo](t, o).Status.DeviceInfos) == 1 })
	info := in[multitenancyv1alpha1.NodeInfo](t, o)
	if owner := info.OwnerReferences; len(owner) != 1 || owner[0].Kind != "Node" || owner[0].UID != "uid-true" || owner[0].BlockOwnerDeletion == nil ||
		*owner[0].BlockOwnerDeletion {
		t.Errorf("owners are %+v", owner)
	}
	if got := info.Status.DeviceInfos[0]; info.Spec.VMUniqueID != "m-1" || got.MacAddress != "00:0d:3a:00:00:01" ||
		got.DeviceType != multitenancyv1alpha1.DeviceTypeVnetNIC {
		t.Errorf("got %+v", info)
	}
	await(t, o, func() bool { return in[acnv1alpha1.NodeInfo](t, o).Status.VMUniqueID == "m-1" })
	mu.Lock()
	devices = nil
	mu.Unlock()
	w.Look()
	await(t, o, func() bool { return len(in[multitenancyv1alpha1.NodeInfo](t, o).Status.DeviceInfos) == 0 })
}

// TestNodeInfo_SeveralSources_BestMachineIDUsed: an ID that does not belong to a virtual machine says so.
func TestNodeInfo_SeveralSources_BestMachineIDUsed(t *testing.T) {
	dir := t.TempDir()
	smbios, system := filepath.Join(dir, "product_uuid"), filepath.Join(dir, "machine-id")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	is := func(configured, want string) {
		t.Helper()
		if got := nodeinfo.Machine(configured, smbios, system); got != want {
			t.Errorf("the machine is %q, want %q", got, want)
		}
	}
	is("", "")
	write(system, "0123456789abcdef0123456789abcdef\n")
	is("", "machine-id:0123456789abcdef0123456789abcdef")
	write(smbios, "\n")
	is("", "machine-id:0123456789abcdef0123456789abcdef")
	for _, text := range []string{"\xff\xfe", "an \x00 ID", "Ä", "two\nlines", strings.Repeat("x", 200)} {
		write(smbios, text) // the API server would refuse the object
		is("", "machine-id:0123456789abcdef0123456789abcdef")
	}
	write(smbios, "4C4C4544-0042-3510-8056-B4C04F4A4D32\n")
	is("", "4c4c4544-0042-3510-8056-b4c04f4a4d32")
	is("vm-7", "vm-7")
}

// TestNodeInfo_MachineIDMissing_NodeIDUsed: the object says that the ID does not name a machine.
func TestNodeInfo_MachineIDMissing_NodeIDUsed(t *testing.T) {
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Update(func(tx store.Tx) error {
		return store.PutNode(tx, &store.Node{Meta: testrows.Meta("uid-node1"), Name: "node1", NodeIPAM: true})
	}); err != nil {
		t.Fatal(err)
	}
	o := &objects{byKey: map[reflect.Type]kube.Object{}, wrote: make(chan struct{}, 1)}
	w := nodeinfo.New(nodeinfo.Config{
		Node: "node1", API: o, Store: s, Every: time.Millisecond, Log: slog.New(slog.DiscardHandler),
		Groups: []string{multitenancyv1alpha1.GroupVersion.Group}, Devices: func() ([]string, error) { return nil, nil },
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { w.Run(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	await(t, o, func() bool { return in[multitenancyv1alpha1.NodeInfo](t, o).Spec.VMUniqueID == "node-uid:uid-node1" })
}
