// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package podresources

import (
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	api "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// FuzzReadList compares with the kubelet's own types, for answers that these accept.
func FuzzReadList(f *testing.F) {
	seed, err := proto.Marshal(&api.ListPodResourcesResponse{PodResources: []*api.PodResources{{
		Namespace: "a", Name: "p", CpuIds: []int64{1}, Containers: []*api.ContainerResources{{
			Name: "c", Devices: []*api.ContainerDevices{{ResourceName: "x/vf", DeviceIds: []string{"b", "a"}}},
		}},
	}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add(seed[:len(seed)-1])
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := readList(text, "a", "p")
		var want api.ListPodResourcesResponse
		if proto.Unmarshal(text, &want) != nil {
			return
		}
		if err != nil {
			t.Fatalf("refuses what the kubelet's types accept: %v", err)
		}
		devices := Devices{}
		for _, pod := range want.PodResources {
			if pod.Namespace == "a" && pod.Name == "p" {
				devices = Devices{}
				for _, container := range pod.Containers {
					for _, d := range container.Devices {
						if len(d.DeviceIds) > 0 {
							devices[d.ResourceName] = append(devices[d.ResourceName], d.DeviceIds...)
						}
					}
				}
			}
		}
		for resource, ids := range devices {
			if !utf8.ValidString(resource) {
				t.Skip()
			}
			slices.Sort(ids)
		}
		if diff := cmp.Diff(devices, got); diff != "" && len(devices)+len(got) > 0 {
			t.Errorf("(-kubelet's +got):\n%s", diff)
		}
	})
}
