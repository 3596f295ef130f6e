// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"slices"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/pluginconf"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// ungranted returns why CNI plugins may not run for a pod, "" if they may. The plugins run as
// root, and the AttachmentClaim that has their configuration is in the namespace of
// the pod: only admission keeps the owner of the namespace from writing one. So a node also
// demands a DelegationGrant, which only administrators write, and checks the operator's
// conditions for the namespaces. Their rows show whether they belong to tenants. It is asked
// once, before the plugins' ADD: the end of a grant does not concern pods that run.
func ungranted(tx store.ReadTx, sharing multinet.Sharing, pod *store.Pod, described netif.Interface) string {
	if described.Delegate == nil {
		return ""
	}
	if why := whyUngranted(tx, sharing, pod, described); why != "" {
		return fmt.Sprintf("interface %s: %s", described.Name, why)
	}
	return ""
}

func whyUngranted(tx store.ReadTx, sharing multinet.Sharing, pod *store.Pod, described netif.Interface) string {
	claim := multinet.GetClaim(tx, pod.Namespace, v1alpha1.AttachmentClaimName(pod.UID, described.Name))
	if claim == nil {
		return "its AttachmentClaim has not arrived yet"
	}
	network := claim.Network
	for _, name := range []string{pod.Namespace, network.Namespace} {
		if name == "" {
			continue // a network of the cluster
		}
		switch namespace := store.GetNamespace(tx, name); {
		case namespace == nil:
			return fmt.Sprintf("namespace %s has not been read from the API server yet", name)
		case tenancy.Labelled(namespace.Tenant):
			return fmt.Sprintf(
				"CNI plugins do not run for pods of tenants, nor by their definitions, and namespace %s has a tenant label",
				name,
			)
		}
	}
	grants := sharing.GrantsFor(tx, pod.Namespace, network)
	if len(grants) == 0 {
		return fmt.Sprintf(
			"no DelegationGrant names %s or its namespace for pods of namespace %s: ask the cluster administrator for one",
			network,
			pod.Namespace,
		)
	}
	if network.Namespace != pod.Namespace && choosesIPs(described.Delegate) {
		return fmt.Sprintf(
			"a pod chooses addresses past the capabilities of CNI plugins in its own namespace alone, and %s is not there: delete the pod to have it decided anew",
			network,
		)
	}
	var why string
	for _, grant := range grants {
		if why = exceeds(grant, network, described.Delegate); why == "" {
			return ""
		}
	}
	return why
}

// exceeds returns why a grant does not permit the plugins and requests of described, "" if the grant
// permits all of them.
func exceeds(grant *multinet.Grant, network store.NetworkRef, described *netif.Delegate) string {
	file, isDefinition := described.File, network.Kind == multinet.KindDefinition
	if choosesMAC(described) && !slices.Contains(grant.Requests, v1alpha1.DelegationRequestMAC) {
		return fmt.Sprintf(
			"DelegationGrant %s does not permit the request %q: delete the pod to have it decided anew",
			grant.Name,
			v1alpha1.DelegationRequestMAC,
		)
	}
	if file == nil {
		if !isDefinition {
			return fmt.Sprintf("%s has no configuration of its own for CNI plugins", network)
		}
		allowed := pluginconf.Allowed{Plugins: grant.Plugins, IPAM: grant.IPAM}
		if err := pluginconf.Check(network.String(), described.Conf, allowed); err != nil {
			return fmt.Sprintf("%v (DelegationGrant %s)", err, grant.Name)
		}
		return ""
	}
	if isDefinition && (!grant.Names(network) || file.NetworkID != "" || file.Name != network.Name) {
		return fmt.Sprintf(
			"DelegationGrant %s does not name %s in spec.networks, which a file of the nodes needs",
			grant.Name,
			network,
		)
	}
	if !subset(file.Plugins, grant.Plugins) || !subset(file.IPAM, grant.IPAM) {
		return fmt.Sprintf(
			"DelegationGrant %s permits the plugins %v and the IPAM plugins %v, and not %v and %v: delete the pod to have it decided anew",
			grant.Name,
			grant.Plugins,
			grant.IPAM,
			file.Plugins,
			file.IPAM,
		)
	}
	return ""
}

// choosesIPs reports whether plugins get the pod's addresses without the capability, and
// choosesMAC whether they get its MAC.
func choosesIPs(described *netif.Delegate) bool {
	return described.IP != "" || described.File != nil && described.File.PlainIPs
}

func choosesMAC(described *netif.Delegate) bool {
	return described.MAC != "" || described.File != nil && described.File.PlainMAC
}

func subset(some, all []string) bool {
	return !slices.ContainsFunc(some, func(one string) bool { return !slices.Contains(all, one) })
}
