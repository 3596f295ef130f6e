// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package podnetworkinstance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/operator/verdict"

	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/nodeipam"
)

type state = multitenancyv1alpha1.InstanceState

// podsNamed is how many pods a message names.
const podsNamed = 3

// decision is the status of one instance.
type decision struct {
	// reserved has at most one element for each PodNetwork and VPC.
	reserved []nodeipam.Reserved
	// assume: some of the addresses are new. The store gets them before the API does, so that no
	// other instance gets them.
	assume bool
	// unused is true once an instance being deleted may lose its finalizer.
	unused bool
	// state is "" while addresses are being reserved, and during deletion.
	state    state
	networks map[string]state
	verdict.Verdict
}

// refusal is why an instance can't be used.
type refusal struct {
	state state
	verdict.Verdict
}

func refuse(state state, reason, message string) *refusal {
	return &refusal{state, verdict.Refuse(reason, message)}
}

// facts are inputs of a decision besides the store.
type facts struct {
	// written has the reservations in the status in the API. An instance is Ready only if the
	// status has all of them, so that a successor of this operator finds them at any moment.
	written []nodeipam.Reserved
	// settled is false while nodes may hold addresses that the API lacks.
	settled bool
	// keeps is false if the API drops reservations, by a CRD that is not Alioth's.
	keeps bool
}

// decide plans for one instance.
//
// Each step is written before the next one. Assumed reservations in the store are written even if
// the instance does not need it any more, because it is unknown whether an earlier write has
// reached the API. Addresses are released only from an instance that is not Ready, whose pods get
// no addresses.
func decide(tx store.ReadTx, row *nodeipam.Instance, now facts) decision {
	if !within(row.Reserved, now.written) {
		return decision{reserved: row.Reserved}.reserving()
	}
	if row.Deleting {
		return deleting(tx, row)
	}
	d := ofParts(tx, row, now)
	if row.Ready && count(d.reserved) < count(row.Reserved) {
		d.reserved = row.Reserved
		if d.state == multitenancyv1alpha1.InstanceReady {
			return d.reserving()
		}
	}
	if d.state == multitenancyv1alpha1.InstanceReady && !within(d.reserved, now.written) {
		return d.reserving()
	}
	return d
}

// reserving turns a decision into an intermediate one.
func (d decision) reserving() decision {
	d.state, d.networks, d.Verdict = "", nil, verdict.Wait(v1alpha1.ReservingReason, "its addresses are being reserved")
	return d
}

// ofParts decides by the PodNetworks of an instance.
func ofParts(tx store.ReadTx, row *nodeipam.Instance, now facts) decision {
	if no := unserved(tx, row, now.keeps); no != nil {
		return decision{reserved: onlyHeld(tx, row, row.Reserved), state: no.state, Verdict: no.Verdict}
	}
	parts := partsOf(tx, row)
	d := decision{reserved: remaining(tx, row, parts), networks: map[string]state{}}
	if count(d.reserved) == count(row.Reserved) { // otherwise the status drops the released addresses first
		d.assume = reserve(tx, row, parts, now.settled)
	}
	for _, p := range parts {
		d.judge(p)
	}
	if d.assume {
		for _, p := range parts {
			d.reserved = with(d.reserved, p)
		}
	}
	switch {
	case d.Reason != "":
		return d
	case len(d.networks) < len(parts):
		return d.reserving()
	}
	d.state, d.Verdict = multitenancyv1alpha1.InstanceReady, verdict.Use("its addresses are reserved")
	return d
}

// judge notes the state of a part: the first refusal is the instance's.
func (d *decision) judge(p *part) {
	switch {
	case p.no != nil:
		d.networks[p.network] = p.no.state
		if d.Reason == "" {
			d.state, d.Verdict = p.no.state, p.no.Verdict
		}
	case p.lacks() == 0 || len(p.fresh) > 0:
		d.networks[p.network] = multitenancyv1alpha1.InstanceReady
	}
}

// unserved finds why an instance gets no addresses at all.
func unserved(tx store.ReadTx, row *nodeipam.Instance, keeps bool) *refusal {
	serving := nodeipam.ServingInstance(tx, row.Namespace, row.Name)
	switch {
	case serving != nil && serving.Ref != row.Ref:
		return refuse(multitenancyv1alpha1.InstanceReservationError, v1alpha1.OlderServesReason, fmt.Sprintf(
			"the PodNetworkInstance of this name in group %s, which is older, serves: delete one of the two, or give this one another name",
			serving.Group,
		))
	case row.Invalid != "":
		return refuse(multitenancyv1alpha1.InstanceReservationError, v1alpha1.InvalidReason, row.Invalid)
	case len(row.Interfaces) == 0:
		return refuse(
			multitenancyv1alpha1.InstanceReservationError,
			v1alpha1.InvalidReason,
			"it names no PodNetwork: make one with spec.podNetworkConfigs",
		)
	case reserves(row) && !keeps:
		return refuse(multitenancyv1alpha1.InstanceReservationError, v1alpha1.ForeignDefinitionReason, fmt.Sprintf(
			"the CustomResourceDefinition podnetworkinstances.%s is not Alioth's and drops status.reservations, so no address can be reserved: "+
				"give it to Alioth's release, as `helm get notes` says, or reserve none with podIPReservationSize 0",
			row.Group,
		))
	}
	return nil
}

// reserves reports whether an instance asks for reserved addresses.
func reserves(row *nodeipam.Instance) bool {
	return slices.ContainsFunc(row.Interfaces, func(one nodeipam.Interface) bool { return one.Reserve > 0 })
}

// deleting lists the reasons that delay the deletion of an instance.
func deleting(tx store.ReadTx, row *nodeipam.Instance) decision {
	d := decision{reserved: onlyHeld(tx, row, row.Reserved), Verdict: verdict.Deleting("nothing uses it")}
	names := users(tx, row)
	if d.unused = len(names) == 0; !d.unused {
		more := ""
		if len(names) > podsNamed {
			more = ", and others"
		}
		d.Message = fmt.Sprintf(
			"used by %d pod(s): %s%s; delete them first",
			len(names),
			strings.Join(names[:min(len(names), podsNamed)], ", "),
			more,
		)
	}
	return d
}

// users lists the pods of an instance with an address, as namespace/name. Of a pod that is gone,
// only a reserved address shows the instance.
func users(tx store.ReadTx, row *nodeipam.Instance) []string {
	var names []string
	for _, reserved := range row.Reserved {
		for _, ip := range reserved.IPs {
			if address := store.AddressByIP(tx, reserved.VPC, ip); address != nil && useOf(tx, row, reserved.VPC, ip) == held {
				names = append(names, row.Namespace+"/"+address.Holder.Name)
			}
		}
	}
	if serving := nodeipam.ServingInstance(tx, row.Namespace, row.Name); serving == nil || serving.Ref == row.Ref {
		for _, pod := range store.PodsByNamespace(tx, row.Namespace) {
			if isLabelled(pod, row) && slices.ContainsFunc(store.AddressesByPod(tx, pod), isDelegated) {
				names = append(names, row.Namespace+"/"+pod.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func isLabelled(pod *store.Pod, row *nodeipam.Instance) bool {
	name, named := pod.Labels[multitenancyv1alpha1.PodNetworkInstanceLabel]
	return named && name == row.Name
}

// isDelegated reports whether an address belongs to an interface in a PodNetwork.
func isDelegated(address *store.Address) bool {
	return address.External && address.Attachment != v1alpha1.PodAttachment
}
