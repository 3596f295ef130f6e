// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

const (
	manyVPCs, addressesOfVPC = 1000, 10
	thisNode                 = "node"
	// prefix begins the names of the VPCs.
	prefix = "scale-"
	// streams is how many watches an API server takes on one connection.
	streams = 1000
)

// serve answers watches until the process ends, and writes its address to out.
func serve(out io.Writer) error {
	server := httptest.NewUnstartedServer(http.HandlerFunc(answer))
	server.EnableHTTP2 = true
	server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: streams}
	server.StartTLS()
	if _, err := fmt.Fprintln(out, server.URL); err != nil {
		return err
	}
	select {}
}

// version is the resource version of all objects.
const version = "2"

// answer answers a list or a watch. A watch gets the present objects if it asks for them, and then
// nothing.
func answer(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	resource, selector := path.Base(r.URL.Path), query.Get("fieldSelector")
	w.Header().Set("Content-Type", "application/json")
	if query.Get("watch") == "" {
		list := map[string]any{"metadata": metav1.ListMeta{ResourceVersion: version}, "items": objectsOf(resource, selector)}
		_ = json.NewEncoder(w).Encode(list) // the client has gone
		return
	}
	if query.Get("sendInitialEvents") != "" {
		sendInitial(w, objectsOf(resource, selector))
	}
	if flusher, ok := w.(http.Flusher); ok {
		flusher.Flush()
	}
	<-r.Context().Done()
}

// sendInitial sends objects as the first events of a watch.
func sendInitial(w io.Writer, objects []any) {
	events := json.NewEncoder(w)
	for _, object := range objects {
		_ = events.Encode(map[string]any{"type": "ADDED", "object": object}) // the client has gone
	}
	_ = events.Encode(map[string]any{"type": "BOOKMARK", "object": metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: version,
			Annotations:     map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		},
	}})
}

// objectsOf returns the objects of a resource that a selector selects.
func objectsOf(resource, selector string) (list []any) {
	field, value, _ := strings.Cut(selector, "=")
	ofVPC := strings.HasPrefix(value, prefix)
	switch {
	case resource == "vpcs" && ofVPC:
		list = append(list, &v1alpha1.VPC{ObjectMeta: named(value), Spec: v1alpha1.VPCSpec{CIDRs: []string{"10.10.0.0/16"}}})
	case resource == "subnets" && ofVPC:
		list = append(
			list,
			&v1alpha1.Subnet{
				ObjectMeta: named(value + "-net"),
				Spec:       v1alpha1.SubnetSpec{VPC: value, CIDRs: []string{"10.10.1.0/24"}},
			},
		)
	case resource == "addresses" && ofVPC:
		for i := range addressesOfVPC {
			list = append(list, address(value, i))
		}
	case resource == "addresses" && field == "spec.node":
		for i := range manyVPCs {
			list = append(list, address(fmt.Sprint(prefix, i), 0))
		}
	}
	return list
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1"}
}

// address is one of a VPC. The first one is on the node.
func address(vpc string, i int) *v1alpha1.Address {
	ip, node := fmt.Sprintf("10.10.1.%d", 10+i), "far"
	if i == 0 {
		node = thisNode
	}
	return &v1alpha1.Address{ObjectMeta: named(vpc + "." + ip), Spec: v1alpha1.AddressSpec{
		VPC: vpc, Subnet: vpc + "-net", IP: ip, MAC: "02:00:0a:0a:01:0a", Node: node, Set: []string{ip}, Attachment: v1alpha1.PodAttachment,
		Holder: v1alpha1.AddressHolder{Kind: v1alpha1.HolderPod, Namespace: "ns", Name: "pod", UID: "uid-" + vpc + ip},
	}}
}
