// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/helm"
	"github.com/alioth-net/alioth/test/waits"
)

// installCRDs creates Alioth's CRDs and waits until they are served.
func installCRDs(ctx context.Context, config *rest.Config) error {
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client for CRDs: %w", err)
	}
	names, err := fs.Glob(helm.CRDs(), "*.yaml")
	if err != nil {
		return fmt.Errorf("list the CRDs: %w", err)
	}
	definitions := client.ApiextensionsV1().CustomResourceDefinitions()
	strict := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
	for _, file := range names {
		crd, err := readCRD(file)
		if err != nil {
			return err
		}
		if _, err := definitions.Create(ctx, crd, strict); err != nil {
			return fmt.Errorf("create CRD %s: %w", crd.Name, err)
		}
	}
	established := func(ctx context.Context) (bool, error) {
		list, err := definitions.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, fmt.Errorf("list CRDs: %w", err)
		}
		for i := range list.Items {
			if !isEstablished(&list.Items[i]) {
				return false, nil
			}
		}
		return true, nil
	}
	if err := wait.PollUntilContextTimeout(ctx, pollEvery, waits.Limit(time.Minute), true, established); err != nil {
		return fmt.Errorf("wait for the CRDs to be served: %w", err)
	}
	return nil
}

func readCRD(file string) (*apiextensionsv1.CustomResourceDefinition, error) {
	text, err := fs.ReadFile(helm.CRDs(), file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	crd := new(apiextensionsv1.CustomResourceDefinition)
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		return nil, fmt.Errorf("decode %s: %w", file, err)
	}
	return crd, nil
}

func isEstablished(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.Established {
			return c.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}
