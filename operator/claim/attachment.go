// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/write"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/outside"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// AttachmentRow is one attachment of a pod to a network outside of every VPC, with or
// without addresses.
type AttachmentRow struct {
	// Interface is the name of the interface in the pod, unique among its attachments.
	Interface string
	// Driver is the kind of the attachment.
	Driver  string
	Network store.NetworkRef
	// Config is the description of the interface, for its node.
	Config netif.Interface
	// Interfaces are the names of all interfaces of the pod, nil if this is not the first one.
	Interfaces []string
	// ConfigHash is the SHA-256 of the attachment's element in the annotation, 64
	// digits in hex.
	ConfigHash string
	// Addresses with prefix lengths, for people.
	Addresses []string
}

var attachmentClaims = objects[*v1alpha1.AttachmentClaim, multinet.Claim]{outside.AttachmentClaim, claimRows{}}

// claimRows implements rows for AttachmentClaims. A claim reserves nothing, so no row is assumed:
// the watch brings it.
type claimRows struct{}

func (claimRows) uid(row *multinet.Claim) string { return row.UID }

func (claimRows) held(store.ReadTx, *multinet.Claim) *multinet.Claim { return nil }

func (claimRows) confirm(store.Tx, *multinet.Claim, *multinet.Claim) error { return nil }

func (claimRows) object(row *multinet.Claim) (*v1alpha1.AttachmentClaim, error) {
	return attachmentObject(row)
}

// ErrUnreleased reports that the node of a pod has not reported yet that a former interface is gone.
var ErrUnreleased = errors.New("a former AttachmentClaim of the pod is being deleted, and its node has not reported yet that the interface is gone")

// ClaimAttachments makes the AttachmentClaims of a pod match the rows: it creates missing claims,
// and deletes claims that differ or are for other interfaces. The finalizer keeps a deleted claim
// until the node has reported that the pod has no interface, so the network is not given to others.
// A different claim of the same name yields ErrUnreleased until then. A claim that exists already
// costs no request. Each step can be repeated after an error; ErrHolderGone needs no repetition.
// Until all steps are done, a node attaches the pod to the networks of correct claims only.
func (c *Claimer) ClaimAttachments(ctx context.Context, pod *store.Pod, rows []AttachmentRow) error {
	var lacking, surplus, unlike []*multinet.Claim
	gone := false
	c.Store.View(func(tx store.ReadTx) {
		gone = !lives(tx, pod.AsHolder())
		held, planned := multinet.ClaimsNaming(tx, pod.UID), claimsOf(pod, rows)
		lacking, surplus = compareClaims(held, planned)
		unlike = unlikeClaims(held, planned)
	})
	if gone {
		return ErrHolderGone
	}
	for _, row := range unlike {
		if err := c.addConfig(ctx, row); err != nil {
			return err
		}
	}
	taken, err := c.removeClaims(ctx, pod, surplus)
	if err != nil {
		return err
	}
	isTaken := func(row *multinet.Claim) bool { return slices.Contains(taken, row.Name) }
	free := slices.DeleteFunc(slices.Clone(lacking), isTaken)
	if err := c.createAll(ctx, pod, free); err != nil {
		return err
	}
	if len(free) < len(lacking) {
		return ErrUnreleased
	}
	return nil
}

// createAll creates claims, and removes other claims with their names.
func (c *Claimer) createAll(ctx context.Context, pod *store.Pod, rows []*multinet.Claim) error {
	for range rounds {
		others, err := c.createClaims(ctx, rows)
		if err != nil || len(others) == 0 {
			return err
		}
		switch taken, err := c.removeClaims(ctx, pod, others); {
		case err != nil:
			return err
		case len(taken) > 0:
			return ErrUnreleased
		}
	}
	return errOutpaced
}

// removeClaims removes claims that name a pod, and returns the names of claims that their finalizers
// keep.
func (c *Claimer) removeClaims(ctx context.Context, pod *store.Pod, rows []*multinet.Claim) (taken []string, _ error) {
	for _, row := range rows {
		stays, err := c.removeClaim(ctx, pod, row)
		if err != nil {
			return nil, err
		}
		if stays {
			taken = append(taken, row.Name)
		}
	}
	return taken, nil
}

// removeClaim deletes a claim that names a pod, and reports whether its finalizer keeps it. No node
// attaches a pod by a claim that does not count for the pod, so such a claim goes at once.
func (c *Claimer) removeClaim(ctx context.Context, pod *store.Pod, row *multinet.Claim) (stays bool, err error) {
	if !row.Deleting {
		if err := c.DeleteAttachment(ctx, row); err != nil {
			return false, err
		}
	}
	switch {
	case !row.Finalizer:
		return false, nil
	case row.CountsFor(pod):
		return true, nil
	}
	return false, c.ReleaseAttachment(ctx, row)
}

// createClaims creates claims at the same time. It returns the existing claims of these names that
// differ.
func (c *Claimer) createClaims(ctx context.Context, rows []*multinet.Claim) (others []*multinet.Claim, err error) {
	found := make([]*multinet.Claim, len(rows))
	var group errgroup.Group
	for i, row := range rows {
		group.Go(func() (err error) {
			_, found[i], err = attachmentClaims.create(ctx, c, []*multinet.Claim{row}, sameClaim)
			return err
		})
	}
	err = group.Wait()
	return slices.DeleteFunc(found, func(other *multinet.Claim) bool { return other == nil }), err
}

// AttachmentsClaimed reports whether the AttachmentClaims of a pod match the rows.
func AttachmentsClaimed(tx store.ReadTx, pod *store.Pod, rows []AttachmentRow) bool {
	held, planned := multinet.ClaimsNaming(tx, pod.UID), claimsOf(pod, rows)
	lacking, surplus := compareClaims(held, planned)
	return len(lacking) == 0 && len(surplus) == 0 && len(unlikeClaims(held, planned)) == 0
}

// AttachmentOf returns the AttachmentClaim of a pod for a row, nil without one. A claim that is being
// deleted counts: its finalizer keeps it while the pod may have the interface.
func AttachmentOf(tx store.ReadTx, pod *store.Pod, row AttachmentRow) *multinet.Claim {
	planned := claimsOf(pod, []AttachmentRow{row})[0]
	for _, other := range multinet.ClaimsNaming(tx, pod.UID) {
		if sameClaim(other, planned) {
			return other
		}
	}
	return nil
}

// compareClaims divides the difference between the claims that exist and the planned
// ones: rows to create, and rows to delete before. A claim that is being deleted exists until it
// is gone.
func compareClaims(held, planned []*multinet.Claim) (lacking, surplus []*multinet.Claim) {
	for _, row := range planned {
		if !slices.ContainsFunc(held, func(other *multinet.Claim) bool { return sameClaim(other, row) }) {
			lacking = append(lacking, row)
		}
	}
	for _, row := range held {
		if !slices.ContainsFunc(planned, func(other *multinet.Claim) bool { return sameClaim(row, other) }) {
			surplus = append(surplus, row)
		}
	}
	return lacking, surplus
}

// unlikeClaims returns the planned rows of claims that exist without a configuration, as release 0.1
// made them, or with another list of interfaces. The rows have the UID and version of the existing
// claim, and no configuration if the claim has one.
func unlikeClaims(held, planned []*multinet.Claim) (unlike []*multinet.Claim) {
	for _, row := range planned {
		i := slices.IndexFunc(held, func(other *multinet.Claim) bool { return sameClaim(other, row) })
		if i < 0 || held[i].Deleting || held[i].Config != nil && slices.Equal(held[i].Interfaces, row.Interfaces) {
			continue
		}
		row.Meta = held[i].Meta
		if held[i].Config != nil {
			row.Config = nil
		}
		unlike = append(unlike, row)
	}
	return unlike
}

// addConfig adds the configuration to a claim that has none, and writes the list of interfaces. A
// claim that has changed since is left to its event, which is still to come.
func (c *Claimer) addConfig(ctx context.Context, row *multinet.Claim) error {
	object, err := attachmentObject(row)
	if err != nil {
		return err
	}
	var patch struct {
		Metadata struct {
			UID             string `json:"uid"`
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Spec struct {
			Config     *runtime.RawExtension `json:"config,omitempty"`
			Interfaces []string              `json:"interfaces"`
		} `json:"spec"`
	}
	patch.Metadata.UID, patch.Metadata.ResourceVersion = row.UID, row.ResourceVersion
	patch.Spec.Config, patch.Spec.Interfaces = object.Spec.Config, object.Spec.Interfaces
	text, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode patch of AttachmentClaim %s/%s: %w", row.Namespace, row.Name, err)
	}
	err = c.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, text))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("add the configuration to AttachmentClaim %s/%s: %w", row.Namespace, row.Name, err)
	}
	return nil
}

// sameClaim reports whether an existing claim is the planned one. The network's UID
// decides: the annotation that a claim is planned from again has no group.
func sameClaim(real, planned *multinet.Claim) bool {
	return real.Namespace == planned.Namespace && real.Name == planned.Name && real.PodName == planned.PodName &&
		real.PodUID == planned.PodUID && real.Node == planned.Node && real.Interface == planned.Interface &&
		real.Driver == planned.Driver && real.Network.UID == planned.Network.UID && real.ConfigHash == planned.ConfigHash
}

func claimsOf(pod *store.Pod, rows []AttachmentRow) (all []*multinet.Claim) {
	for _, row := range rows {
		all = append(all, &multinet.Claim{
			Namespace: pod.Namespace, Name: v1alpha1.AttachmentClaimName(pod.UID, row.Interface),
			PodName: pod.Name, PodUID: pod.UID, Node: pod.Node, Interface: row.Interface, Driver: row.Driver,
			Network: row.Network, Config: &row.Config, Interfaces: row.Interfaces, ConfigHash: row.ConfigHash,
			Addresses: row.Addresses,
		})
	}
	return all
}

// DeleteAttachment deletes an AttachmentClaim, which its finalizer still keeps. A successor
// with its name is a conflict: its event is still to come.
func (c *Claimer) DeleteAttachment(ctx context.Context, row *multinet.Claim) error {
	object := &v1alpha1.AttachmentClaim{ObjectMeta: metav1.ObjectMeta{Namespace: row.Namespace, Name: row.Name}}
	if err := c.remove(ctx, object, row.UID, row.Holder()); err != nil {
		return fmt.Errorf("remove AttachmentClaim %s/%s: %w", row.Namespace, row.Name, err)
	}
	return nil
}

// ReleaseAttachment removes the finalizer of an AttachmentClaim. It returns nil for a claim that is
// gone, and a successor with the same name keeps its finalizer.
func (c *Claimer) ReleaseAttachment(ctx context.Context, row *multinet.Claim) error {
	object := &v1alpha1.AttachmentClaim{}
	key := client.ObjectKey{Namespace: row.Namespace, Name: row.Name}
	if err := c.Live.Get(ctx, key, object); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get AttachmentClaim %s: %w", key, err)
	}
	if string(object.UID) != row.UID {
		return nil
	}
	_, err := write.RemoveFinalizer(ctx, c.Client, object)
	return err
}

// attachmentObject makes the object of a row. Its owner is the pod, so that Kubernetes
// deletes it with the pod. Its finalizer keeps it until the pod's node has released the
// interface: the node may not be reachable, and its network must not be given to others.
func attachmentObject(row *multinet.Claim) (*v1alpha1.AttachmentClaim, error) {
	config, err := netif.Encode(row.Config)
	return &v1alpha1.AttachmentClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: row.Namespace, Name: row.Name, Finalizers: []string{v1alpha1.Finalizer},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Pod", Name: row.PodName, UID: types.UID(row.PodUID)},
			},
		},
		Spec: v1alpha1.AttachmentClaimSpec{
			Pod: v1alpha1.AttachmentPod{Name: row.PodName, UID: row.PodUID}, Node: row.Node,
			Interface: row.Interface, Driver: row.Driver, Network: *referenceTo(row.Network),
			Config: config, Interfaces: slices.Clone(row.Interfaces), ConfigHash: row.ConfigHash,
			Addresses: slices.Clone(row.Addresses),
		},
	}, err
}
