// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netpol

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cmd/aliothctl/netpol/judgement"
	"github.com/alioth-net/alioth/store/kinds/policies"
)

// readFiles adds the objects of files and folders.
func readFiles(o *judgement.Objects, paths []string, stdin io.Reader) error {
	o.FromFiles = true
	f := files{objects: o}
	for _, path := range paths {
		if path == "-" {
			if err := f.read("standard input", stdin); err != nil {
				return err
			}
			continue
		}
		if err := f.walk(path); err != nil {
			return err
		}
	}
	if f.count == 0 {
		return errors.New("the files have no object")
	}
	return nil
}

// files reads manifests.
type files struct {
	objects *judgement.Objects
	count   int
}

// walk reads a file, or the manifests below a folder.
func (f *files) walk(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if path != root && !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			return nil
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		return f.read(path, file)
	})
}

// read reads the documents of a file.
func (f *files) read(path string, in io.Reader) error {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(in))
	for n := 1; ; n++ {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = f.document(text)
		}
		if err != nil {
			return fmt.Errorf("%s, document %d: %w", path, n, err)
		}
	}
}

// header has what every object has, and the items of a List.
type header struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Items []any `json:"items"`
}

func (f *files) document(text []byte) error {
	var head header
	if err := yaml.Unmarshal(text, &head); err != nil {
		return quote.Error(err)
	}
	if head.Kind == "" {
		if len(bytes.TrimSpace(text)) == 0 || isComment(text) {
			return nil
		}
		return errors.New("it has no kind, so it is no object of Kubernetes")
	}
	if strings.HasSuffix(head.Kind, "List") && head.Items != nil {
		for _, item := range head.Items {
			text, err := yaml.Marshal(item)
			if err != nil {
				return err
			}
			if err := f.document(text); err != nil {
				return err
			}
		}
		return nil
	}
	f.count++
	if err := f.object(&head, text); err != nil {
		return fmt.Errorf("%s %s: %w", quote.Name(head.Kind), quote.Name(head.Metadata.Name), quote.Error(err))
	}
	return nil
}

// isComment reports whether a document has comments alone.
func isComment(text []byte) bool {
	var value any
	return yaml.Unmarshal(text, &value) == nil && value == nil
}

// object adds an object of a kind that answers depend on. Policies have no fields that the API
// does not know: a misspelled field would change their meaning.
func (f *files) object(head *header, text []byte) error {
	o := f.objects
	name := judgement.Name{Namespace: cmp.Or(head.Metadata.Namespace, metav1.NamespaceDefault), Name: head.Metadata.Name}
	switch group, _, _ := strings.Cut(head.APIVersion, "/"); group + " " + head.Kind {
	case "v1 Namespace":
		return add(text, yaml.Unmarshal, func(in *corev1.Namespace) { o.Namespaces[in.Name] = in })
	case "v1 Pod":
		return add(text, yaml.Unmarshal, func(in *corev1.Pod) { in.Namespace, o.Pods[name] = name.Namespace, in })
	case "v1 Service":
		return add(text, yaml.Unmarshal, func(in *corev1.Service) { in.Namespace, o.Services[name] = name.Namespace, in })
	case "discovery.k8s.io EndpointSlice":
		return add(text, yaml.Unmarshal, func(in *discoveryv1.EndpointSlice) {
			in.Namespace, o.Slices = name.Namespace, append(o.Slices, in)
		})
	case arktosv1.GroupVersion.Group + " Network":
		return add(text, yaml.Unmarshal, func(in *arktosv1.Network) {
			in.Namespace, o.Networks = name.Namespace, append(o.Networks, in)
		})
	case v1alpha1.GroupVersion.Group + " SharedService":
		return add(text, yaml.Unmarshal, func(in *v1alpha1.SharedService) { o.Shared = append(o.Shared, sharedBy(in)) })
	case v1alpha1.GroupVersion.Group + " VPC":
		return add(text, yaml.Unmarshal, o.AddVPC)
	case v1alpha1.GroupVersion.Group + " Address":
		return add(text, yaml.Unmarshal, func(in *v1alpha1.Address) { o.Addresses = append(o.Addresses, in) })
	}
	if template, err := templateOf(head, text); template != nil || err != nil {
		o.Templates[judgement.Ref{Sort: judgement.Sort(head.Kind), Name: name}] = template
		return err
	}
	return f.policy(head, name, text)
}

// policy adds a policy, or a problem for a policy of a kind that Alioth does not serve.
func (f *files) policy(head *header, name judgement.Name, text []byte) error {
	o := f.objects
	strict := func(text []byte, into any, _ ...yaml.JSONOpt) error { return yaml.UnmarshalStrict(text, into) }
	switch head.APIVersion + " " + head.Kind {
	case "networking.k8s.io/v1 NetworkPolicy":
		return add(text, strict, func(in *networkingv1.NetworkPolicy) {
			in.Namespace = name.Namespace
			o.AddNetworkPolicy(in)
		})
	case v1alpha2.GroupVersion.String() + " ClusterNetworkPolicy":
		return add(text, strict, o.AddClusterNetworkPolicy)
	case multiNetworkPolicies.GroupVersion().String() + " MultiNetworkPolicy":
		return add(text, strict, func(in *policies.MultiNetworkPolicy) {
			in.Namespace = name.Namespace
			o.AddMultiNetworkPolicy(in)
		})
	}
	if strings.HasSuffix(head.Kind, "NetworkPolicy") {
		of := head.Metadata.Name
		if head.Metadata.Namespace != "" {
			of = name.String()
		}
		o.AddProblem(head.Kind+" "+of, "Alioth does not serve this kind of "+head.APIVersion+": no part of the policy counts")
	}
	return nil
}

// add decodes an object and hands it over.
func add[T any](text []byte, decode func([]byte, any, ...yaml.JSONOpt) error, take func(*T)) error {
	in := new(T)
	if err := decode(text, in); err != nil {
		return err
	}
	take(in)
	return nil
}

// templateOf returns the template of a controller, nil for other kinds.
func templateOf(head *header, text []byte) (*corev1.PodTemplateSpec, error) {
	switch head.APIVersion + " " + head.Kind {
	case "apps/v1 Deployment", "apps/v1 StatefulSet", "apps/v1 DaemonSet", "apps/v1 ReplicaSet", "batch/v1 Job":
		var in struct {
			Spec struct {
				Template corev1.PodTemplateSpec `json:"template"`
			} `json:"spec"`
		}
		return &in.Spec.Template, yaml.Unmarshal(text, &in)
	case "batch/v1 CronJob":
		var in batchv1.CronJob
		err := yaml.Unmarshal(text, &in)
		return &in.Spec.JobTemplate.Spec.Template, err
	}
	return nil, nil
}

// sharedBy returns the Service that a SharedService names.
func sharedBy(in *v1alpha1.SharedService) judgement.Name {
	return judgement.Name{Namespace: in.Spec.Namespace, Name: in.Spec.Name}
}
