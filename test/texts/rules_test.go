// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package texts_test

import (
	"maps"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/test/texts"
)

const (
	module = "github.com/alioth-net/alioth"
	meta   = "k8s.io/apimachinery/pkg/apis/meta/v1"
	core   = "k8s.io/api/core/v1"
)

// unbounded are fields of rows that may have more of a text of others, with the reason. The
// source cuts and quotes them where a message repeats them.
var unbounded = map[string]string{
	"multinet.Definition.Config":           "a whole configuration, of up to 64 KiB",
	"nmstate.Policy.Capture":               "expressions, which administrators write",
	"nodeipam.PodNetwork.SubnetGUID":       "for other programs alone",
	"nodeipam.PodNetwork.SubnetResourceID": "a path of Azure, for other programs alone",
	"store.Endpoint.ForZones":              "names of zones, which are compared alone",
	"store.Endpoint.PodUID":                "it is compared alone",
	"netif.Delegate.Conf":                  "a whole configuration, which store/rules/pluginconf reads",
	"netif.DelegateFile.Args":              "raw JSON, which store/rules/pluginconf reads",
	"netif.DelegateFile.Runtime":           "raw JSON, which store/rules/pluginconf reads",
	"annotations.NetworkSelection.CNIArgs": "raw JSON, which store/rules/pluginconf reads",
	"store.Pod.Attachments":                "a whole annotation",
	"store.Pod.Interfaces":                 "a whole annotation",
	"store.Pod.NetworkStatus":              "a whole annotation",
	"store.Pod.NIC":                        "a whole annotation",
	"store.Pod.Selections":                 "a whole annotation",
	"store.Pod.DefaultSelection":           "a whole annotation",
	"store.Service.AskedPool":              "a wrong wish does not cost a Service its row",
	"store.Service.LoadBalancer":           "a wrong wish does not cost a Service its row",
	"store.Pod.ProbeHost":                  "a wrong host does not cost a pod its row",
	"store.Service.AskedIPs":               "a wrong wish does not cost a Service its row",
}

// messages are fields of rows that have a whole message of Alioth, of up to 1,024 bytes.
func isMessage(field string) bool {
	return strings.HasSuffix(field, ".Message") || field == "nmstate.Enactment.Overruled"
}

// validated are fields that the API server itself bounds.
var validated = map[string]string{
	"store.Endpoint.Node":        "the name of a Node",
	"store.Pod.Node":             "the name of a Node",
	"store.ServicePort.Name":     "a DNS label",
	"store.ServicePort.Protocol": "one of three values",
}

// ofServer are fields that the API server or the kernel bounds.
var ofServer = []string{
	"github.com/vishvananda/netlink.LinkAttrs", "k8s.io/api/authentication/v1.UserInfo",
	meta + ".ObjectMeta.Name", meta + ".ObjectMeta.Namespace", meta + ".ObjectMeta.UID", meta + ".ObjectMeta.ResourceVersion", meta + ".ObjectMeta.Labels",
	meta + ".ObjectMeta.GenerateName", meta + ".OwnerReference", meta + ".ObjectMeta.OwnerReferences", meta + ".TypeMeta", meta + ".WatchEvent", core + ".PodSpec.NodeName",
	core + ".ServicePort", core + ".Taint", core + ".Toleration", core + ".NodeSelectorRequirement",
}

// decoded are fields that are checked where they are decoded.
var decoded = map[string]string{
	module + "/cnid/nodeipam/wire.IPConfigsRequest.Ifname":           "wire.CheckIfname",
	module + "/cnid/nodeipam/wire.IPConfigsRequest.InfraContainerID": "wire.CheckContainerID",
	module + "/cnid/nodeipam/wire.IPConfigsRequest.PodInterfaceID":   "wire.CheckPodInterfaceID",
	module + "/cnid/nodeipam/wire.IPConfigsRequest.NetnsPath":        "a path of the runtime, which root alone sends",
	module + "/cnid/nodeipam/wire.OrchestratorContext.PodName":       "nameOfPod in cnid/nodeipam/rest",
	module + "/cnid/nodeipam/wire.OrchestratorContext.PodNamespace":  "nameOfPod in cnid/nodeipam/rest",
	module + "/cnid/nodeipam/rest.Key":                               "keyOf in cnid/nodeipam/rest",
	module + "/cnid/interfaces/journal.Key":                          "checkTexts in cnid/cni/cniserver, and keyOf in cnid/nodeipam/rest",
	module + "/cnid/interfaces/journal.Pod":                          "parsePod in cnid/cni/cniserver, and podOf in cnid/nodeipam/rest",
	module + "/cnid/cni/cniserver.command":                           "checkTexts in cnid/cni/cniserver",
	module + "/cnid/cni/cniserver.netConf":                           "checkTexts in cnid/cni/cniserver",
	module + "/cnid/cni/cniserver.validAttachment":                   "checkTexts in cnid/cni/cniserver",
	module + "/cnid/cni/cniapi.Request.Netns":                        "a path of the runtime, which root alone sends",
	module + "/cnid/cni/cniapi.Request.Path":                         "a path of the runtime, which root alone sends",
	module + "/cnid/cni/cniapi.Client":                               "the configuration of the plugin",
	module + "/cnid/nodeipam/wire.PodIPInfo.InterfaceName":           "wire.CheckIfname, with an error that cuts it",
	module + "/cnid/nodeipam/plugin/nodenic.Interface.Name":          "wire.CheckIfname",
	module + "/cnid/nodeipam/plugin/nodenic.Interface.MAC":           "6 bytes",
	module + "/api/nmstate/document.renaming":                        "alternatives in api/nmstate/document",
	module + "/api/nmstate/reach.Target.Host":                        "reach.Parse",
}

// documents are types whose texts their decoder checks (api/nmstate/document.Parse).
const documents = module + "/api/nmstate/document"

// own are fields of types of Kubernetes that the product fills itself.
var own = []string{
	core + ".NodeCondition.Type", core + ".ObjectReference", "k8s.io/api/events/v1.Event", "k8s.io/api/authorization/v1.NonResourceAttributes",
	module + "/cnid/nodeipam/wire.Response",
}

var rules = texts.Rules{
	Others: []string{
		"k8s.io/api/", meta,
		module + "/api/v1alpha1", module + "/api/arktos/", module + "/api/danm/", module + "/api/danmio/",
		module + "/api/multitenancy/", module + "/api/acn/", module + "/api/nmstate/",
		"github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1",
		module + "/cnid/nodeipam/wire", module + "/cnid/cni/cniapi", "github.com/containernetworking/cni/pkg/skel", "github.com/containernetworking/cni/pkg/types", "github.com/containernetworking/cni/pkg/types/100",
	},
	Rows: []string{
		module + "/store", module + "/store/rows/multinet", module + "/store/rows/external", module + "/store/rows/scaled", module + "/store/rows/roles",
		module + "/store/rows/nodeipam", module + "/store/rows/nmstate", module + "/store/client/descriptor", documents, module + "/api/annotations", module + "/api/netif",
	},
	Unbounded: maps.Clone(unbounded),
	Bounded:   set(slices.Concat(slices.Sorted(maps.Keys(decoded)), ofServer, own)),
	Decoders:  []string{module + "/api/annotations.decodeStrict", module + "/api/annotations.decodeFrom"},
	Stores:    []string{"github.com/hashicorp/go-memdb"},
	Cut:       module + "/api/quote",
}

func set(names []string) map[string]bool {
	all := map[string]bool{}
	for _, name := range names {
		all[name] = true
	}
	return all
}
