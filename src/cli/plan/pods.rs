//! From a manifest to what the engine takes: amounts by the kubelet's rules, devices by resource name.

use super::manifest::{Amounts, Container, Manifest, PodError};
use super::qos::{limits, qos, requests, why_not_guaranteed};
use super::rules;
use crate::config::Config;
use crate::engine::{GPU, MIG, NIC};
use crate::model::{
    Bytes, ContainerKind, ContainerName, ContainerRequest, DeviceRequest, HugepageSize, PodRequest, PodUid,
    Qos, Quantity, ResourceName,
};
use std::collections::BTreeMap;

/// A pod to be seated.
#[derive(Debug, Clone)]
pub struct Pod {
    /// What it asks for, by its spec alone.
    pub request: PodRequest,
    /// Its annotations, ours among them.
    pub annotations: BTreeMap<String, String>,
    /// Why it is never rejected, if it is so.
    pub exempt: Option<String>,
    /// What its author should know, whatever becomes of it.
    pub notes: Vec<String>,
    /// How many of it its workload asks for, where it says.
    pub replicas: Option<u32>,
}

impl Pod {
    /// `namespace/name`.
    pub fn title(&self) -> String {
        format!("{}/{}", self.request.namespace, self.request.name)
    }

    /// That it is not the only one, where it is seated as if it were.
    fn alone(&self) -> Option<String> {
        let replicas = self.replicas.filter(|replicas| *replicas > 1)?;
        Some(format!("one of {replicas} replicas; --replicas seats them all, --fill tells how many fit"))
    }

    /// Everything its author should know.
    pub fn remarks(&self) -> impl Iterator<Item = String> {
        let exempt = self.exempt.iter().map(|why| format!("never rejected and never pinned: {why}"));
        self.alone().into_iter().chain(self.notes.iter().cloned()).chain(exempt)
    }

    /// One of several.
    pub fn copy(&self, number: u32) -> Self {
        let mut copy = self.clone();
        copy.request.name = format!("{}-{number}", self.request.name);
        copy.request.uid = PodUid::new(format!("{}-{number}", self.request.uid));
        copy.replicas = None;
        copy
    }

    /// As many as its workload asks for; itself where no workload does.
    pub fn copies(self) -> Vec<Self> {
        let Some(replicas) = self.replicas else { return vec![self] };
        (1..=replicas).map(|number| self.copy(number)).collect()
    }
}

/// Understands a manifest; `number` tells pods of one name apart.
pub fn pod(manifest: &Manifest, number: usize, config: &Config) -> Result<Pod, PodError> {
    let namespace = manifest.metadata.namespace.clone().unwrap_or_else(|| "default".into());
    let spec = &manifest.spec;
    let init = spec.init_containers.as_deref().unwrap_or_default();
    let all = || init.iter().chain(&spec.containers);
    let mut notes = notes(manifest);
    let class = qos(all());
    if let Some(why) = why_not_guaranteed(all()).filter(|_| class != Qos::Guaranteed) {
        notes.push(format!("no exclusive CPUs: the pod is not Guaranteed, as {why}"));
    }
    let mut containers = Vec::new();
    for (list, own, kind) in
        [("initContainers", init, ContainerKind::Init), ("containers", &spec.containers, ContainerKind::App)]
    {
        for (index, container) in own.iter().enumerate() {
            let path = format!("{}spec.{list}[{index}]", manifest.prefix);
            let reader = Reader { manifest, path, container, config };
            let kind = reader.kind(kind)?;
            rules::check(container)
                .map_err(|(below, text)| reader.error(&format!("resources.{below}"), text))?;
            containers.push(reader.request(kind, class, spec.resources.is_some(), &mut notes)?);
        }
    }
    if containers.is_empty() || spec.containers.is_empty() {
        let path = format!("{}spec.containers", manifest.prefix);
        return Err(manifest.place.error(path, "empty: expected at least one container"));
    }
    let request = PodRequest {
        uid: PodUid::new(format!("plan-{number}")),
        name: name(manifest)?,
        namespace,
        containers,
    };
    let handler = spec.runtime_class_name.as_deref().unwrap_or_default();
    let exempt = config.exempt.why(&request.namespace, handler);
    let annotations = manifest.metadata.annotations.clone().unwrap_or_default();
    Ok(Pod { request, annotations, exempt, notes, replicas: manifest.replicas })
}

fn name(manifest: &Manifest) -> Result<String, PodError> {
    let metadata = &manifest.metadata;
    let name = metadata.name.clone().or_else(|| metadata.generate_name.clone());
    name.filter(|name| !name.is_empty())
        .ok_or_else(|| manifest.place.error("metadata.name", "missing: expected the pod's name"))
}

fn notes(manifest: &Manifest) -> Vec<String> {
    let mut notes = Vec::new();
    if manifest.spec.resources.is_some() {
        notes.push("pod-level resources are not understood: its containers stay in the shared pool".into());
    }
    if manifest.spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()) {
        notes.push("resource claims are not understood: their devices are not seated".into());
    }
    notes
}

struct Reader<'a> {
    manifest: &'a Manifest,
    path: String,
    container: &'a Container,
    config: &'a Config,
}

impl Reader<'_> {
    fn kind(&self, kind: ContainerKind) -> Result<ContainerKind, PodError> {
        match (kind, self.container.restart_policy.as_deref()) {
            (ContainerKind::Init, Some("Always")) => Ok(ContainerKind::Sidecar),
            (_, None | Some("Always" | "OnFailure" | "Never")) => Ok(kind),
            (_, Some(other)) => {
                Err(self.error("restartPolicy", format!("{other:?}: expected Always, OnFailure or Never")))
            }
        }
    }

    fn request(
        &self,
        kind: ContainerKind,
        qos: Qos,
        opt_out: bool,
        notes: &mut Vec<String>,
    ) -> Result<ContainerRequest, PodError> {
        let (requests, limits) = (requests(self.container), limits(self.container));
        let amount = |amounts: &Amounts, name: &str| amounts.get(name).copied().unwrap_or_default();
        let cpu = amount(&requests, "cpu");
        if qos == Qos::Guaranteed && !cpu.is_whole() {
            let name = &self.container.name;
            notes.push(format!("no exclusive CPUs: container {name} asks for {cpu}, not for whole CPUs"));
        }
        let name = ContainerName::new(&self.container.name);
        Ok(ContainerRequest {
            cpu_milli: cpu.milli(),
            memory: Bytes(amount(&limits, "memory").units()),
            hugepages: self.hugepages(&limits)?,
            devices: self.devices(&limits, notes)?,
            opt_out,
            ..ContainerRequest::nothing(name, kind, qos)
        })
    }

    fn hugepages(&self, limits: &Amounts) -> Result<BTreeMap<HugepageSize, Bytes>, PodError> {
        let mut pages = BTreeMap::new();
        for (name, amount) in limits {
            let Some(size) = name.strip_prefix("hugepages-") else { continue };
            let size: HugepageSize = size.parse().map_err(|error| self.limit(name, error))?;
            let bytes = amount.units();
            if !amount.is_whole() || !bytes.is_multiple_of(size.bytes()) {
                return Err(self.limit(name, format!("{amount}: expected a multiple of {size}")));
            }
            if bytes > 0 {
                pages.insert(size, Bytes(bytes));
            }
        }
        Ok(pages)
    }

    fn devices(
        &self,
        limits: &Amounts,
        notes: &mut Vec<String>,
    ) -> Result<BTreeMap<ResourceName, DeviceRequest>, PodError> {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for (name, amount) in limits.iter().filter(|(name, amount)| name.contains('/') && !amount.is_zero()) {
            let count = self.count(name, *amount)?;
            let resource = match name.as_str() {
                GPU => GPU,
                name if name.starts_with("nvidia.com/mig-") => {
                    notes.push(format!(
                        "{name}: any MIG device counts, as a machine's description tells no profiles"
                    ));
                    MIG
                }
                name if self.config.is_nic(&name.into()) => NIC,
                _ => {
                    notes.push(format!("{name} is neither a GPU nor a NIC that maitred knows: not seated"));
                    continue;
                }
            };
            let sum = counts.entry(resource).or_default();
            *sum = sum.saturating_add(count);
        }
        Ok(counts.into_iter().map(|(name, n)| (name.into(), DeviceRequest::Count(n))).collect())
    }

    fn count(&self, name: &str, amount: Quantity) -> Result<u32, PodError> {
        let count = u32::try_from(amount.units()).ok().filter(|_| amount.is_whole());
        count.ok_or_else(|| self.limit(name, format!("{amount}: expected a whole number of devices")))
    }

    fn limit(&self, name: &str, message: impl ToString) -> PodError {
        self.error(&format!("resources.limits.{name}"), message)
    }

    fn error(&self, below: &str, message: impl ToString) -> PodError {
        self.manifest.place.error(format!("{}.{below}", self.path), message.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::super::manifest;
    use super::*;
    use proptest::prelude::*;

    fn pods(yaml: &str) -> Vec<Pod> {
        let (manifests, _) = manifest::read("pod.yaml", yaml).unwrap();
        manifests.iter().map(|manifest| pod(manifest, 0, &Config::default()).unwrap()).collect()
    }

    fn one(yaml: &str) -> Pod {
        pods(yaml).pop().unwrap()
    }

    #[test]
    fn a_template_is_a_pod_in_its_workloads_name() {
        let pod = one(
            "kind: Deployment\nmetadata: {name: web, namespace: shop}\nspec:\n  replicas: 3\n  template:\n    \
                       spec: {containers: [{name: a}]}",
        );
        assert_eq!(pod.title(), "shop/web");
        assert_eq!(pod.request.containers[0].qos, Qos::BestEffort);
        assert!(pod.remarks().any(|note| note.starts_with("one of 3 replicas")));
        let copies: Vec<String> = pod.copies().iter().map(Pod::title).collect();
        assert_eq!(copies, ["shop/web-1", "shop/web-2", "shop/web-3"]);
    }

    #[test]
    fn containers_come_in_the_order_they_start_and_with_their_part() {
        let pod = one(
            "kind: Pod\nmetadata: {name: a}\nspec:\n  containers: [{name: main}]\n  initContainers: [{name: \
                       setup}, {name: proxy, restartPolicy: Always}]",
        );
        let parts: Vec<_> = pod.request.containers.iter().map(|c| (c.name.to_string(), c.kind)).collect();
        assert_eq!(parts[0], ("setup".into(), ContainerKind::Init));
        assert_eq!(parts[1], ("proxy".into(), ContainerKind::Sidecar));
        assert_eq!(parts[2], ("main".into(), ContainerKind::App));
    }

    #[test]
    fn amounts_and_devices_are_understood() {
        let pod = one(
            "kind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: main\n    resources:\n      limits: \
                       {cpu: 16, memory: 200Gi, nvidia.com/gpu: 2, hugepages-1Gi: 16Gi, rdma/hca: 1, \
                       intel.com/sriov_rdma: '1', nvidia.com/mig-1g.10gb: 1, nvidia.com/mig-2g.20gb: 1, example.com/fpga: 1}",
        );
        let main = &pod.request.containers[0];
        assert_eq!((main.qos, main.exclusive_cpus()), (Qos::Guaranteed, Some(16)));
        assert_eq!(main.memory, Bytes(200 << 30));
        assert_eq!(main.hugepages[&HugepageSize::GIB1], Bytes(16 << 30));
        assert_eq!(main.devices[&GPU.into()], DeviceRequest::Count(2));
        assert_eq!(main.devices[&NIC.into()], DeviceRequest::Count(2));
        assert_eq!(main.devices[&MIG.into()], DeviceRequest::Count(2), "of whatever profile");
        assert_eq!(main.devices.len(), 3);
        assert!(pod.notes.iter().any(|note| note.contains("example.com/fpga is neither")), "{:?}", pod.notes);
        assert!(
            pod.notes.iter().any(|note| note.starts_with("nvidia.com/mig-1g.10gb: any MIG")),
            "{:?}",
            pod.notes
        );
    }

    #[test]
    fn why_nothing_is_pinned_is_said() {
        let limits = |text: &str| {
            format!(
                "kind: Pod\nmetadata: {{name: a}}\nspec: {{containers: [{{name: m, resources: {{{text}}}}}]}}"
            )
        };
        let burstable = one(&limits("requests: {cpu: 1}, limits: {cpu: 2, memory: 1Gi}"));
        assert_eq!(
            burstable.notes,
            ["no exclusive CPUs: the pod is not Guaranteed, as container m requests less cpu than its limit"]
        );
        let fraction = one(&limits("limits: {cpu: 1500m, memory: 1Gi}"));
        assert_eq!(fraction.notes, ["no exclusive CPUs: container m asks for 1500m, not for whole CPUs"]);
    }

    #[test]
    fn pod_level_resources_and_claims_are_not_passed_over_in_silence() {
        let pod = one("kind: Pod\nmetadata: {name: a}\nspec: \
                       {resources: {limits: {cpu: 4}}, resourceClaims: [{name: g}], containers: [{name: m}]}");
        assert!(pod.request.containers[0].opt_out);
        let all = pod.notes.join("\n");
        for word in ["pod-level resources", "resource claims"] {
            assert!(all.contains(word), "{all}");
        }
    }

    #[test]
    fn exempt_namespaces_are_the_configurations() {
        let yaml = "kind: Pod\nmetadata: {name: a, namespace: kube-system}\nspec: {containers: [{name: m}]}";
        assert_eq!(one(yaml).exempt.unwrap(), "namespace kube-system is exempt");
    }

    proptest! {
        #[test]
        fn no_manifest_panics(text in "\\PC{0,60}", amount in "[0-9.eEkKmMGi+-]{0,12}", key in "[a-z/:-]{1,16}") {
            let limits = format!(
                "kind: Pod\nmetadata: {{name: a}}\nspec: {{containers: [{{name: m, resources: {{limits: {{{key}: \
                 {amount}}}}}}}]}}"
            );
            for yaml in [text, limits] {
                if let Ok((manifests, _)) = manifest::read("pod.yaml", &yaml) {
                    let _ = manifests.iter().map(|m| pod(m, 0, &Config::default())).collect::<Vec<_>>();
                }
            }
        }
    }
}
