// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodeinfo writes the NodeInfo objects of a node: which machine it is, and the
// devices that it offers to pods. They exist on nodes with the label of the node IPAM API.
package nodeinfo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	acnv1alpha1 "github.com/alioth-net/alioth/api/acn/v1alpha1"
	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/kube"
)

// ProductUUID is the kernel's file with the UUID of the machine (SMBIOS 3.7, section 7.2.1).
const ProductUUID = "/sys/class/dmi/id/product_uuid"

// MachineID is the file with the ID of the node's system (machine-id(5)): the daemon has another
// root directory, and sees the processes of the node.
const MachineID = "/proc/1/root/etc/machine-id"

// renew is the interval between writes of objects that should be there: somebody may have deleted
// them. A patch without a change costs the API server little.
const renew = 5 * time.Minute

// again is the time between attempts after a failure.
const again = 5 * time.Second

// API writes objects.
type API interface {
	Create(ctx context.Context, obj kube.Object) error
	Patch(ctx context.Context, obj kube.Object, kind types.PatchType, data []byte, subresource ...string) error
}

// Config has the settings and functions of a Writer. All fields are required.
type Config struct {
	Node  string
	API   API
	Store *store.Store
	// Groups are the API groups that have NodeInfos.
	Groups []string
	// Machine identifies the virtual machine; "" for the UID of the Node, if nothing else does.
	Machine string
	// Devices returns the Ethernet addresses of the devices that the node offers.
	Devices func() ([]string, error)
	// Every is the time between two looks at the devices without a hint.
	Every time.Duration
	Log   *slog.Logger
}

// Writer keeps the NodeInfos of a node. Use New.
type Writer struct {
	cfg   Config
	hints chan struct{}
}

// New returns a Writer.
func New(cfg Config) *Writer { return &Writer{cfg: cfg, hints: make(chan struct{}, 1)} }

// Prefixes of IDs that do not come from the SMBIOS. They tell a reader who looks for a virtual
// machine by its ID that no machine has this ID.
const (
	ofSystem = "machine-id:"
	ofNode   = "node-uid:"
)

// Machine returns the ID of a virtual machine: the configured ID, or the ID in the file smbios
// (see ProductUUID), or the ID in the file system with a prefix (see MachineID), or "".
func Machine(configured, smbios, system string) string {
	if configured != "" {
		return configured
	}
	if id := idIn(smbios); id != "" {
		return strings.ToLower(id)
	}
	if id := idIn(system); id != "" {
		return ofSystem + id
	}
	return ""
}

// longestID is the longest ID that a file may have, in bytes.
const longestID = 128

// idIn returns the ID that a file has, or "". The API server refuses the whole NodeInfo if the ID
// has another form, so firmware and files with such a text have no ID.
func idIn(file string) string {
	text, err := os.ReadFile(file)
	id := strings.TrimSpace(string(text))
	if err != nil || len(id) > longestID || strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ""
	}
	return id
}

// machine returns the ID that is written.
func (w *Writer) machine(now info) string { return cmp.Or(w.cfg.Machine, ofNode+now.nodeUID) }

// Look requests a comparison of the devices. It does not block.
func (w *Writer) Look() {
	select {
	case w.hints <- struct{}{}:
	default:
	}
}

// info is the written object.
type info struct {
	nodeUID string
	devices []string
}

func (i info) equal(other info) bool {
	return i.nodeUID == other.nodeUID && slices.Equal(i.devices, other.devices)
}

// Run writes until ctx ends.
func (w *Writer) Run(ctx context.Context) {
	var written info
	var at time.Time
	logged := ""
	for ctx.Err() == nil {
		now, err := w.read(ctx)
		wait := w.cfg.Every
		if err == nil && (!now.equal(written) || time.Since(at) > renew) {
			if err = w.write(ctx, now); err == nil {
				written, at = now, time.Now()
			}
		}
		if err == nil {
			logged = ""
		} else if ctx.Err() == nil {
			if err.Error() != logged { // one warning for each cause
				w.cfg.Log.Warn("can't write the NodeInfo of this node; trying again", "error", err)
			}
			logged, wait = err.Error(), again
		}
		select {
		case <-ctx.Done():
		case <-w.hints:
		case <-time.After(wait):
		}
	}
}

// read waits until the node has the label.
func (w *Writer) read(ctx context.Context) (info, error) {
	var now info
	err := w.cfg.Store.Wait(ctx, func(tx store.ReadTx, _ *store.WatchSet) bool {
		row := store.GetNode(tx, w.cfg.Node)
		if row == nil || !row.NodeIPAM {
			return false
		}
		now = info{nodeUID: row.UID}
		return true
	})
	if err != nil {
		return info{}, err
	}
	now.devices, err = w.cfg.Devices()
	return now, err
}

func (w *Writer) write(ctx context.Context, now info) error {
	var errs []error
	for _, group := range w.cfg.Groups {
		if err := w.writeTo(ctx, group, now); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", group, err))
		}
	}
	if errors.Join(errs...) == nil {
		w.cfg.Log.Info("wrote the NodeInfo of this node", "machine", w.machine(now), "devices", now.devices)
	}
	return errors.Join(errs...)
}

// writeTo writes the object of a group. It patches the fields of now, so that fields of others
// stay.
func (w *Writer) writeTo(ctx context.Context, group string, now info) error {
	meta := metav1.ObjectMeta{Name: w.cfg.Node, OwnerReferences: []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "Node", Name: w.cfg.Node, UID: types.UID(now.nodeUID), BlockOwnerDeletion: new(bool),
	}}}
	var object kube.Object
	change, status := map[string]any{"metadata": map[string]any{"ownerReferences": meta.OwnerReferences}}, map[string]any{}
	if group == acnv1alpha1.GroupVersion.Group {
		object = &acnv1alpha1.NodeInfo{ObjectMeta: meta}
		status["vmUniqueID"] = w.machine(now)
	} else {
		object = &multitenancyv1alpha1.NodeInfo{ObjectMeta: meta}
		change["spec"] = map[string]any{"vmUniqueID": w.machine(now)}
		status["deviceInfos"] = deviceInfos(now.devices)
	}
	err := w.patch(ctx, object, change)
	if apierrors.IsNotFound(err) {
		if err = w.create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create: %w", err)
		}
		err = w.patch(ctx, object, change)
	}
	if err != nil {
		return err
	}
	return w.patch(ctx, object, map[string]any{"status": status}, "status")
}

func deviceInfos(macs []string) []multitenancyv1alpha1.DeviceInfo {
	list := []multitenancyv1alpha1.DeviceInfo{}
	for _, mac := range macs {
		list = append(
			list,
			multitenancyv1alpha1.DeviceInfo{DeviceType: multitenancyv1alpha1.DeviceTypeVnetNIC, MacAddress: mac},
		)
	}
	return list
}

func (w *Writer) create(ctx context.Context, object kube.Object) error {
	ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
	defer cancel()
	return w.cfg.API.Create(ctx, object)
}

func (w *Writer) patch(ctx context.Context, object kube.Object, change map[string]any, subresource ...string) error {
	text, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("encode a patch: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
	defer cancel()
	if err := w.cfg.API.Patch(ctx, object, types.MergePatchType, text, subresource...); err != nil {
		return fmt.Errorf("patch: %w", err)
	}
	return nil
}
