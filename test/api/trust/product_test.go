// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package trust_test

import (
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/alioth-net/alioth/test/api/trust/reads"
)

const module = "github.com/alioth-net/alioth"

// commands are the programs that act on the fields that they read. aliothctl shows the fields to
// the person who runs it.
var commands = []string{"./cmd/alioth-operator", "./cmd/alioth-cnid"}

// rules say which parts of the product are the API.
var rules = reads.Rules{
	API: []string{
		"k8s.io/api/", "k8s.io/apimachinery/pkg/apis/meta/v1",
		module + "/api/v1alpha1", module + "/api/arktos/", module + "/api/danm/", module + "/api/danmio/",
		module + "/api/multitenancy/", module + "/api/acn/", module + "/api/nmstate/v1", module + "/api/nmstate/v1beta1",
		"github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1",
	},
	Carriers: []string{
		// They carry objects to and from the API server, or its JSON.
		"(sigs.k8s.io/controller-runtime/pkg/client.Reader)*", "(sigs.k8s.io/controller-runtime/pkg/client.Writer)*",
		"(sigs.k8s.io/controller-runtime/pkg/client.SubResourceWriter)*",
		"sigs.k8s.io/controller-runtime/pkg/client.MergeFrom*", "sigs.k8s.io/controller-runtime/pkg/client.ObjectKeyFromObject",
		"(k8s.io/client-go/kubernetes/typed/coordination/v1.LeaseInterface)*",
		"(*k8s.io/client-go/rest.Request).Body", "(*encoding/json.Decoder).Decode", "sigs.k8s.io/json.UnmarshalCaseSensitivePreserveInts",
		// They read names: for events, and to keep a cache.
		"(k8s.io/client-go/tools/internal/events.EventRecorder).Eventf", "(*k8s.io/endpointslice/util.EndpointSliceTracker)*",
		"(sigs.k8s.io/controller-runtime/pkg/cache/cacheapi.Informers).GetInformer",
		// They read types, and no fields.
		"(*k8s.io/apimachinery/pkg/runtime.Scheme)*", "reflect.TypeOf", "fmt.*",
		// They set values to write.
		"k8s.io/apimachinery/pkg/api/meta.SetStatusCondition", "k8s.io/apimachinery/pkg/api/meta.RemoveStatusCondition",
		"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil.AddFinalizer", "sigs.k8s.io/controller-runtime/pkg/controller/controllerutil.RemoveFinalizer",
		"k8s.io/apimachinery/pkg/apis/meta/v1.NewControllerRef", "k8s.io/apimachinery/pkg/apis/meta/v1.SetMetaDataAnnotation",
		// They copy, or hand elements to functions of the program.
		"(*k8s.io/api/coordination/v1.*", "(*k8s.io/api/core/v1.*", "(*k8s.io/api/apps/v1.*", "(*k8s.io/api/discovery/v1.*",
		"k8s.io/apimachinery/pkg/api/meta.EachListItem", "k8s.io/apimachinery/pkg/api/meta.ExtractList",
		"slices.Clone", "slices.SortFunc", "slices.ContainsFunc", "slices.DeleteFunc", "slices.IndexFunc", "slices.Compact", "maps.Keys", "cmp.Or",
	},
	Generic: map[string][]string{
		"store/kinds/outside/":                  {"DanmNet", "TenantNetwork", "ClusterNetwork", "TenantConfig"},
		"operator/nodeipam/podconfig/object.go": {"MultitenantPodNetworkConfig", "MultiTenantPodNetworkConfig"},
		"operator/nodeipam/podconfig/":          {"MultitenantPodNetworkConfig", "MultiTenantPodNetworkConfig"},
		"operator/tenantconfig/":                {"TenantConfig"},
		"operator/danm/":                        {"DanmNet", "TenantNetwork", "ClusterNetwork"},
		"operator/nodeipam/podnetworkinstance/": {"PodNetworkInstance"},
		"operator/nodeipam/podnetwork/":         {"PodNetwork"},
		"operator/write/usage.go":               {"Subnet", "VPC"},
		"operator/uninstall/": {
			"VPC",
			"Subnet",
			"Network",
			"AttachmentClaim",
			"Address",
			"ExternalAddress",
			"DanmNet",
			"TenantNetwork",
			"ClusterNetwork",
			"PodNetworkInstance",
		},
		"operator/write/finalizer.go": {"VPC", "Subnet", "Network", "DanmNet", "TenantNetwork", "ClusterNetwork", "PodNetworkInstance"},
	},
}

// opaque are calls with objects of any kind whose reads decide nothing.
var opaque = map[reads.Opaque]string{
	{Function: "k8s.io/apimachinery/pkg/api/meta.Accessor", File: "operator/announce/bounded.go"}:                                "the namespace by which events are counted",
	{Function: "(k8s.io/apimachinery/third_party/forked/golang/reflect.Equalities).DeepEqual", File: "operator/write/status.go"}: "it compares a status with the one to write, and skips the write if they are equal",
	{Function: "reflect.ValueOf", File: "operator/announce/leftout.go"}:                                                          "it finds the conditions in the status, of which it replaces Ready",
	{Function: "encoding/json.Marshal", File: "store/client/kube/status.go"}:                                                     "it compares fields with those to write, and leaves out what is equal",
}

// apart are kinds that code for all kinds never gets, with the only file that has their objects.
var apart = map[string]string{"Lease": "operator/leasewatch.go"}

// productReads returns the reads of the product by kind, with the reads of libraries for it.
func productReads(t *testing.T) (map[schema.GroupKind][]reads.Read, []reads.Opaque) {
	t.Helper()
	program, err := reads.Load(t.Context(), root, module, commands...)
	if err != nil {
		t.Fatal(err)
	}
	report := reads.Of(program, rules)
	groups := groupsOf(t)
	found := map[schema.GroupKind][]reads.Read{}
	for _, read := range append(report.Reads, libraryReads...) {
		kind, ok := groups[read.Kind]
		switch {
		case transient[read.Kind.Name] != "":
		case strings.HasPrefix(read.Path, "metadata.") && !strings.HasPrefix(read.Place, apart[read.Kind.Name]):
		case !ok:
			t.Errorf("%s reads %s of %v, a kind that no scheme has", read.Place, read.Path, read.Kind)
		default:
			found[kind] = append(found[kind], read)
		}
	}
	return found, report.Opaque
}

// libraryReads are reads by libraries on behalf of the product.
var libraryReads = []reads.Read{
	{Kind: reads.Kind{Package: "k8s.io/api/coordination/v1", Name: "Lease"}, Path: "spec.holderIdentity", Place: "client-go's leader election"},
	{Kind: reads.Kind{Package: "k8s.io/api/coordination/v1", Name: "Lease"}, Path: "spec.leaseDurationSeconds", Place: "client-go's leader election"},
	{Kind: reads.Kind{Package: "k8s.io/api/coordination/v1", Name: "Lease"}, Path: "spec.leaseTransitions", Place: "client-go's leader election"},
}

// transient are types of objects that nobody can write: answers of the API server, and objects that
// the product only sends.
var transient = map[string]string{
	"PartialObjectMetadata": "a part of a watch event that the API server sends",
	"SubjectAccessReview":   "an answer of the API server",
	"TokenReview":           "an answer of the API server",
	"Event":                 "the product sends it",
}

// groupsOf finds the kinds of Go types.
func groupsOf(t *testing.T) map[reads.Kind]schema.GroupKind {
	t.Helper()
	found := map[reads.Kind]schema.GroupKind{}
	for kind, typed := range scheme(t).AllKnownTypes() {
		if typed.Kind() == reflect.Struct {
			found[reads.Kind{Package: typed.PkgPath(), Name: typed.Name()}] = kind.GroupKind()
		}
	}
	return found
}
