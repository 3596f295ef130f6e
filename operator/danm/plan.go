// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package danm

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/verdict"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

const (
	// podsInMessage and podsInStatus are how many pods of a network are named there.
	podsInMessage = 3
	podsInStatus  = 10
)

// decision is the next step for one network, and the content of its status.
type decision struct {
	// claim is the number to claim now, nil for none.
	claim *number
	// release are claims that the network must not keep.
	release []*multinet.HostVNIClaim
	// profile is the profile that the status of a TenantNetwork has to have, nil where it is
	// unknown.
	profile     *profile
	networkType string
	// empty is true once a network being deleted may lose its finalizer.
	empty bool
	figures
	pods []string
	// living are the pods that exist.
	living []string
	verdict.Verdict
	// link is the state of the network's host link, nil without one.
	link *linkState
	// notEnforced says which protections the network gives up, "" for none.
	notEnforced string
	// conflict names the older network of the same kind and name in the other group.
	conflict string
	// above is the limit of the tenant that the network exceeds although it works, "" for none.
	above string
	// inSpec reports that the spec of a TenantNetwork has a profile, as earlier releases wrote it.
	inSpec bool
}

// check finds a reason not to use a network; nil for none.
type check func(tx store.ReadTx, net *multinet.Network) *verdict.Verdict

// decide plans for one network. taken are numbers that are claimed although the store does
// not have the claim yet.
func decide(tx store.ReadTx, net *multinet.Network, taken []number, limits Limits) decision {
	d := decision{figures: count(tx, net), networkType: net.Type, link: linkOf(tx, net), notEnforced: notEnforced(tx, net)}
	d.pods, d.living = podsOf(tx, net)
	if net.Deleting {
		return d.deleting(tx, net)
	}
	for _, fails := range []check{isValid, d.isOldest} {
		if r := fails(tx, net); r != nil {
			return d.refused(r)
		}
	}
	if r := d.checkLimits(tx, net, limits); r != nil {
		return d.refused(r)
	}
	if net.Kind == multinet.KindTenantNetwork {
		if r := d.planProfile(tx, net, taken, limits); r != nil {
			return d.refused(r)
		}
		net = d.profile.on(net)
	}
	for _, fails := range []check{isOffTenantsNumbers, losesItsNumber, hasNetworkID, overlapsNone, cutsNothingOff} {
		if r := fails(tx, net); r != nil {
			return d.refused(r)
		}
	}
	d.Verdict = verdict.Use("pods may use it")
	return d
}

// refuse returns a finding of a check.
func refuse(reason, message string) *verdict.Verdict {
	v := verdict.Refuse(reason, message)
	return &v
}

func (d decision) refused(r *verdict.Verdict) decision {
	d.Verdict = *r
	return d
}

// deleting lists the reasons that delay the deletion of the network.
func (d decision) deleting(tx store.ReadTx, net *multinet.Network) decision {
	away := unreleased(tx, net)
	switch {
	case len(away) > 0:
		d.Verdict = verdict.Deleting(
			fmt.Sprintf(
				"the nodes of %d pod(s) that are gone have not released them: %s; if a node does not come back, delete its Node, or taint it with %s",
				len(away),
				some(away, podsInMessage),
				corev1.TaintNodeOutOfService,
			),
		)
	case len(d.pods) > 0:
		d.Verdict = verdict.Deleting(
			fmt.Sprintf(
				"used by %d pod(s): %s; delete them first; if one does not go, look at its finalizers and its node",
				len(d.pods),
				some(d.pods, podsInMessage),
			),
		)
	case d.used > 0:
		d.Verdict = verdict.Deleting(fmt.Sprintf("held by %d address(es)", d.used))
	default:
		if d.pods = podsIn(tx, net); len(d.pods) > 0 {
			d.living = d.pods
			d.Verdict = verdict.Deleting(
				fmt.Sprintf(
					"still attached to %d pod(s): %s; waiting until they have ended; if one does not, look at its finalizers and its node",
					len(d.pods),
					some(d.pods, podsInMessage),
				),
			)
			return d
		}
		d.empty, d.Verdict = true, verdict.Deleting("nothing uses it")
		d.release = multinet.HostVNIClaimsByNetwork(tx, net.UID)
	}
	return d
}

func some(names []string, limit int) string {
	if len(names) > limit {
		return strings.Join(names[:limit], ", ") + ", and others"
	}
	return strings.Join(names, ", ")
}

func isValid(_ store.ReadTx, net *multinet.Network) *verdict.Verdict {
	if net.Invalid != "" {
		return refuse(v1alpha1.InvalidReason, net.Invalid)
	}
	return nil
}

// isOldest finds the older network of the same kind and name in the other group, and
// notes it.
func (d *decision) isOldest(tx store.ReadTx, net *multinet.Network) *verdict.Verdict {
	serving := multinet.Find(tx, net.Kind, net.Namespace, net.Name)
	if serving == nil || serving.UID == net.UID || !serving.Older(net) {
		return nil
	}
	d.conflict = fmt.Sprintf(
		"%s of group %s is older and serves: delete one of the two, or give this one another name",
		serving,
		serving.Group,
	)
	return refuse(v1alpha1.NameConflictReason, d.conflict)
}

// checkLimits refuses a network above a limit of its tenant. It tells one that has been
// served before, whose pods would be cut off from their successors, and lets it work.
func (d *decision) checkLimits(tx store.ReadTx, net *multinet.Network, limits Limits) *verdict.Verdict {
	r := limits.exceeded(tx, net)
	if _, vni := net.VNI(); r == nil && vni != 0 && net.Kind == multinet.KindDanmNet {
		r = limits.numbersExceeded(tx, net)
	}
	if r == nil || !established(tx, net) {
		return r
	}
	d.above = r.Message
	return nil
}

// isOffTenantsNumbers keeps DanmNets off the numbers of tenants: those in a range of the
// TenantConfig, and those that are claimed. A ClusterNetwork precedes both.
func isOffTenantsNumbers(tx store.ReadTx, net *multinet.Network) *verdict.Verdict {
	vniType, vni := net.VNI()
	if net.Kind != multinet.KindDanmNet || vni == 0 {
		return nil
	}
	id := multinet.LinkID{Device: net.Parent(), Type: vniType, VNI: vni}
	if why := multinet.TenantsNumber(tx, id); why != "" {
		return refuse(v1alpha1.VNITakenReason, fmt.Sprintf("%s %s: use another number, or narrow the range", id, why))
	}
	return nil
}

func hasNetworkID(_ store.ReadTx, net *multinet.Network) *verdict.Verdict {
	return networkIDRefusal(net.NetworkID, net)
}

func networkIDRefusal(id string, net *multinet.Network) *verdict.Verdict {
	if id == "" {
		return refuse(v1alpha1.NetworkIDMissingReason, "spec.NetworkID is empty: set it")
	}
	_, vni := net.VNI()
	if why := multinet.CheckNetworkID(id, net.Type, vni != 0); why != "" {
		return refuse(v1alpha1.InvalidReason, fmt.Sprintf("NetworkID %.40q can't be used: %s", id, why))
	}
	return nil
}

// cutsNothingOff finds a held address outside of the ranges, which have changed.
func cutsNothingOff(tx store.ReadTx, net *multinet.Network) *verdict.Verdict {
	ranges := net.Ranges()
	for _, address := range held(tx, net) {
		inside := false
		for _, r := range ranges {
			inside = inside || r.Prefix.Contains(address.IP)
		}
		if !inside {
			return refuse(
				v1alpha1.RangeInUseReason,
				fmt.Sprintf("%s is held by %s %s/%s and lies outside of the ranges: widen them again, or delete the pod",
					address.IP, address.Holder.Kind, address.Holder.Namespace, address.Holder.Name),
			)
		}
	}
	return nil
}
