// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/claim"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/core"
	claims "github.com/alioth-net/alioth/store/kinds/outside"
	"github.com/alioth-net/alioth/store/kinds/vpcs"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/allocation"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// families is how many addresses an interface has at most.
const families = 2

// confirmUndecided checks in the API that a pod has not been decided: the store may be a
// moment behind, and the pod may run with its addresses, so they are neither released nor
// changed. It returns errAssigned if the pod has been decided. A pod without addresses and
// allocation status needs no check here: the following patch has it as a precondition.
func (r *Reconciler) confirmUndecided(ctx context.Context, pod *store.Pod) error {
	var held []*store.Address
	r.Store.View(func(tx store.ReadTx) { held = store.AddressesByPod(tx, pod) })
	if len(held) > 0 {
		if _, err := r.undecidedVersion(ctx, pod); err != nil {
			return err
		}
	}
	for _, attachment := range allocation.Status(pod) {
		if err := r.confirmUnheld(ctx, pod, attachment); err != nil {
			return err
		}
	}
	return nil
}

// confirmUnheld checks in the API that a pod has neither Addresses nor an AttachmentClaim
// for an attachment of its allocation status, except those in the store.
func (r *Reconciler) confirmUnheld(ctx context.Context, pod *store.Pod, attachment netif.Interface) error {
	domain := allocation.Domain(attachment)
	for _, ip := range perFamily(attachment) {
		name := v1alpha1.AddressName(domain, ip)
		if len(content.IsPathSegmentName(name)) > 0 {
			return nil // no VPC has such a name
		}
		if err := r.confirmNotOf(ctx, pod, name); err != nil {
			return err
		}
	}
	if _, outside := allocation.NetworkOf(attachment); !outside {
		return nil
	}
	return r.confirmUnclaimed(ctx, pod, attachment.Name)
}

// confirmNotOf checks in the API that no Address of a name counts for a pod, unless the
// store has it.
func (r *Reconciler) confirmNotOf(ctx context.Context, pod *store.Pod, name string) error {
	known := false
	r.Store.View(func(tx store.ReadTx) {
		row := store.GetAddress(tx, name)
		known = row != nil && row.UID != ""
	})
	if known {
		return nil
	}
	object := &v1alpha1.Address{}
	if err := r.Live.Get(ctx, client.ObjectKey{Name: name}, object); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("get Address %s: %w", name, err)
	}
	if row, err := vpcs.Address.Convert(object); err == nil && row != nil && pod.Holds(row) {
		return errAssigned
	}
	return nil
}

// confirmUnclaimed checks in the API that a pod has no AttachmentClaim for an interface,
// except one in the store.
func (r *Reconciler) confirmUnclaimed(ctx context.Context, pod *store.Pod, name string) error {
	key := client.ObjectKey{Namespace: pod.Namespace, Name: v1alpha1.AttachmentClaimName(pod.UID, name)}
	if len(content.IsPathSegmentName(key.Name)) > 0 {
		return nil // no interface has such a name
	}
	known := false
	r.Store.View(func(tx store.ReadTx) { known = multinet.GetClaim(tx, key.Namespace, key.Name) != nil })
	if known {
		return nil
	}
	object := &v1alpha1.AttachmentClaim{}
	if err := r.Live.Get(ctx, key, object); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("get AttachmentClaim %s: %w", key, err)
	}
	if row, err := claims.AttachmentClaim.Convert(object); err == nil && row != nil && !row.Deleting &&
		row.CountsFor(pod) {
		return errAssigned
	}
	return nil
}

// undecidedVersion returns the version of the pod in the API if it has no other allocation
// status than the given row, else errAssigned.
func (r *Reconciler) undecidedVersion(ctx context.Context, pod *store.Pod) (version string, err error) {
	object := &corev1.Pod{}
	key := client.ObjectKey{Namespace: pod.Namespace, Name: pod.Name}
	if err := r.Live.Get(ctx, key, object); err != nil {
		return "", fmt.Errorf("get pod %s: %w", key, err)
	}
	if string(object.UID) != pod.UID {
		return "", claim.ErrHolderGone
	}
	row, err := core.Pod.Convert(object)
	if err == nil && isOvertaken(pod, row) {
		err = errAssigned
	}
	return object.ResourceVersion, err
}

// isOvertaken reports whether a pod has an allocation status now, and another one than when
// it was decided.
func isOvertaken(decided, now *store.Pod) bool {
	return allocation.HasStatus(now) && (!allocation.HasStatus(decided) || decided.Attachments != now.Attachments)
}

// perFamily returns the first IP of each family of an attachment, IPv4 first.
func perFamily(attachment netif.Interface) (ips []netip.Addr) {
	for _, family := range ipfamily.Both {
		for _, ip := range allocation.IPs(attachment) {
			if ip.IsValid() && family.Has(ip) {
				ips = append(ips, ip)
				break
			}
		}
	}
	return ips
}

// holdUnconfirmed keeps the addresses in an allocation status that nothing confirms from others:
// the pod may run with them until its node learns of another decision. The pod can claim
// them itself, if it may have them. An interface with an Address gets the others of the set
// that the Address names. The rows without an Address are limited to addresses that the tenant
// of the pod could claim: one of each family for each interface that the pod should have, in a
// VPC that allows the tenant. The controller of addresses deletes them after the pod has ended.
func (r *Reconciler) holdUnconfirmed(pod *store.Pod) error {
	list := allocation.Status(pod)
	if len(list) == 0 {
		return nil
	}
	return r.Store.Update(func(tx store.Tx) error {
		now := store.GetPod(tx, pod.UID)
		if now == nil || ending(now) {
			return nil
		}
		desired, _ := desiredOf(tx, pod, r.Sources)
		held := store.AddressesByPod(tx, pod)
		left := max(1, len(desired))*families - count(held, (*store.Address).IsHeldBack)
		for _, attachment := range list {
			of := func(row *store.Address) bool { return row.Attachment == attachment.Name && !row.IsHeldBack() }
			if i := slices.IndexFunc(held, of); i >= 0 {
				if err := holdSet(tx, held[i]); err != nil {
					return err
				}
				continue
			}
			if attachment.Name != v1alpha1.PodAttachment && !has(desired, attachment.Name) {
				continue
			}
			for _, row := range holdable(tx, pod, attachment) {
				if left--; left < 0 {
					return nil
				}
				if err := store.AssumeAddress(tx, row); err != nil {
					return fmt.Errorf("hold %s of %s: %w", row.IP, row.Place(), err)
				}
			}
		}
		return nil
	})
}

// holdSet keeps the free addresses of the set that an Address names: a single Address shows
// the whole decision, whatever the API has lost of it.
func holdSet(tx store.Tx, row *store.Address) error {
	if !isDecision(row) {
		return nil
	}
	for _, ip := range row.Set {
		other := *row
		other.IP, other.Name, other.Kept = ip, v1alpha1.AddressName(row.Domain(), ip), true
		if store.GetAddress(tx, other.Name) != nil || store.AddressByIP(tx, row.Domain(), ip) != nil {
			continue // the row exists, or another holder has the address
		}
		if err := store.AssumeAddress(tx, &other); err != nil {
			return fmt.Errorf("hold %s of %s: %w", ip, row.Place(), err)
		}
	}
	return nil
}

func count(rows []*store.Address, is func(*store.Address) bool) (n int) {
	for _, row := range rows {
		if is(row) {
			n++
		}
	}
	return n
}

// holdable returns rows for the free addresses of an attachment that the tenant of the pod
// could claim.
func holdable(tx store.ReadTx, pod *store.Pod, attachment netif.Interface) []*store.Address {
	request := ipam.Request{VPC: attachment.VPC, Node: pod.Node, Holder: pod.AsHolder(), IPs: perFamily(attachment)}
	request.Families = ipam.FamiliesOf(request.IPs)
	if len(request.IPs) == 0 || !mayClaim(tx, pod, attachment, &request) {
		return nil
	}
	result, err := ipam.Choose(tx, request)
	if err != nil {
		return nil // somebody has it, or nobody may
	}
	rows := slices.DeleteFunc(result.Rows, func(row *store.Address) bool {
		return store.AddressByIP(tx, row.Domain(), row.IP) != nil
	})
	for _, row := range rows {
		row.MAC, row.Kept = "", true
	}
	return rows
}

// mayClaim reports whether the tenant of a pod may use the VPC or network of an attachment,
// and completes the request.
func mayClaim(tx store.ReadTx, pod *store.Pod, attachment netif.Interface, request *ipam.Request) bool {
	if network, ok := allocation.NetworkOf(attachment); ok {
		net := multinet.ByDomain(tx, network.Domain())
		if net == nil || !net.Usable() || !net.Admits(pod.Namespace) {
			return false
		}
		request.VPC, request.Network = "", ipam.RangeOf(tx, net)
		return true
	}
	vpc := store.GetVPC(tx, attachment.VPC)
	return vpc != nil && !vpc.Deleting && tenancy.Allows(vpc, pod.Tenant)
}
