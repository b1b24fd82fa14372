//! A flag that is compiled for evaluation.

use std::collections::HashMap;

use crate::client_text::ClientTexts;
use crate::condition::{self, Attribute, Condition, Context};
use crate::evaluation::{Evaluation, Reason};
use crate::explanation::{Dispatch, EvaluatedCondition, EvaluatedRule, Explanation};
use crate::model::{self, Flag, RolloutVariation, User, Variation};
use crate::rollout::{Interval, bucket};

/// The variation of a user whom the rollout does not cover, or whose variation does not exist.
static NO_VARIATION: Variation = Variation { id: String::new(), name: None, value: String::new() };

/// A flag that is compiled for evaluation.
#[derive(Debug)]
pub struct CompiledFlag {
    flag: Flag,
    changed_at_ms: i64,
    /// Indexes of variations; `None` for an id that the flag does not have.
    disabled: Option<usize>,
    targets: HashMap<Box<str>, Option<usize>>,
    rules: Vec<CompiledRule>,
    fallthrough: Rollout,
    client_texts: ClientTexts,
}

#[derive(Debug)]
struct CompiledRule {
    conditions: Vec<Condition>,
    rollout: Rollout,
}

/// The distribution of users over variations.
#[derive(Debug)]
struct Rollout {
    /// The attribute that is hashed; `None` stands for the user's key.
    dispatch_by: Option<Attribute>,
    is_in_experiment: bool,
    /// Whether more than one part covers users.
    is_split: bool,
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    variation: Option<usize>,
    interval: Interval,
    /// The share of the part's users whose evaluations count for experiments.
    experiment: Option<Interval>,
}

impl CompiledFlag {
    pub(crate) fn new(flag: Flag) -> Self {
        let index = |id: &str| flag.variations.iter().position(|it| it.id == id);
        let mut targets = HashMap::new();
        for target in &flag.target_users {
            for key in &target.key_ids {
                // The first target that lists a user wins.
                targets.entry(key.as_str().into()).or_insert_with(|| index(&target.variation_id));
            }
        }
        let rollout = |dispatch_key: Option<&str>, is_in_experiment, parts: &[RolloutVariation]| {
            let covering = parts.iter().filter(|it| it.rollout[1] > it.rollout[0]).count();
            let parts = parts.iter().map(|it| Part::new(it, index(&it.id))).collect();
            let (dispatch_by, is_split) = (attribute(dispatch_key), covering > 1);
            Rollout { dispatch_by, is_in_experiment, is_split, parts }
        };
        let rule = |rule: &model::Rule| CompiledRule {
            conditions: condition::compile(&rule.conditions),
            rollout: rollout(rule.dispatch_key.as_deref(), rule.included_in_expt, &rule.variations),
        };
        let fallthrough = &flag.fallthrough;
        Self {
            changed_at_ms: flag.changed_at_ms(),
            disabled: index(&flag.disabled_variation_id),
            targets,
            rules: flag.rules.iter().map(rule).collect(),
            fallthrough: rollout(
                fallthrough.dispatch_key.as_deref(),
                fallthrough.included_in_expt,
                &fallthrough.variations,
            ),
            client_texts: ClientTexts::default(),
            flag,
        }
    }

    /// The flag's definition.
    #[must_use]
    pub const fn flag(&self) -> &Flag {
        &self.flag
    }

    /// When the flag was last changed, in milliseconds since 1970.
    #[must_use]
    pub const fn changed_at_ms(&self) -> i64 {
        self.changed_at_ms
    }

    /// Whether it has one value, for every user: it is off, or everybody falls through to one variation.
    #[must_use]
    pub fn is_same_for_all(&self) -> bool {
        !self.flag.is_enabled
            || (self.targets.is_empty()
                && self.rules.is_empty()
                && self.fallthrough.parts.first().is_some_and(Part::is_whole))
    }

    /// The ids of the segments that the rules refer to directly.
    pub(crate) fn segment_ids(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().flat_map(|rule| condition::segment_ids(&rule.conditions))
    }

    /// Whether it tests, or spreads by, what a user is entitled to, but for segments.
    pub(crate) fn tests_entitled(&self) -> bool {
        let rollouts = self.rules.iter().map(|rule| &rule.rollout).chain([&self.fallthrough]);
        let mut spread_by = rollouts.filter_map(|it| it.dispatch_by.as_ref());
        self.rules.iter().flat_map(|rule| &rule.conditions).any(Condition::tests_entitled)
            || spread_by.any(|it| matches!(it, Attribute::Entitled(_)))
    }

    pub(crate) fn evaluate(&self, user: &User, context: &Context<'_>) -> Evaluation<'_> {
        let flag = &self.flag;
        let all_count = flag.expt_include_all_targets;
        if flag.is_archived {
            let reason = Reason::Archived;
            let (send_to_experiment, is_split) = (false, false);
            let (variation, texts) = (None, &self.client_texts);
            return Evaluation { flag, variation, reason, send_to_experiment, is_split, texts };
        }
        if !flag.is_enabled {
            return self.evaluation(self.disabled, Reason::Disabled, false);
        }
        if let Some(index) = self.targets.get(user.key_id.as_str()) {
            return self.evaluation(*index, Reason::Targeted, all_count);
        }
        let rule = self.rule_of(user, context);
        let reason = rule.map(|index| Reason::Rule(&flag.rules[index].name));
        let rollout = self.rollout(rule);
        let (index, counts) = rollout.variation_of(&flag.key, user);
        let reason = reason.unwrap_or(Reason::Fallthrough);
        Evaluation {
            is_split: rollout.is_split,
            ..self.evaluation(index, reason, all_count || counts)
        }
    }

    pub(crate) fn explain(&self, user: &User, context: &Context<'_>) -> Explanation<'_> {
        let evaluation = self.evaluate(user, context);
        match evaluation.reason {
            Reason::Archived | Reason::Disabled | Reason::Targeted => {
                return Explanation { evaluation, rules: vec![], dispatch: None };
            }
            Reason::Rule(_) | Reason::Fallthrough => {}
        }
        let met = self.rule_of(user, context);
        let evaluated = met.map_or(self.rules.len(), |index| index + 1);
        let rules = self.rules[..evaluated].iter().zip(&self.flag.rules);
        let rules = rules.map(|(rule, source)| rule.explain(source, user, context)).collect();
        let rollout = self.rollout(met);
        let key = format!("{}{}", self.flag.key, rollout.dispatch_value(user));
        let bucket = bucket(&[&key]);
        let source = met
            .map_or(&self.flag.fallthrough.variations, |index| &self.flag.rules[index].variations);
        let part = rollout.parts.iter().position(|part| part.interval.contains(|| bucket));
        let interval = part.map(|index| source[index].rollout);
        let dispatch = Some(Dispatch { key, bucket, interval });
        Explanation { evaluation, rules, dispatch }
    }

    /// The index of the first rule whose conditions all hold.
    fn rule_of(&self, user: &User, context: &Context<'_>) -> Option<usize> {
        self.rules.iter().position(|rule| rule.conditions.iter().all(|it| it.holds(user, context)))
    }

    /// The rollout of the rule at this index, or the fallthrough's.
    fn rollout(&self, rule: Option<usize>) -> &Rollout {
        rule.map_or(&self.fallthrough, |index| &self.rules[index].rollout)
    }

    fn evaluation<'s>(
        &'s self,
        index: Option<usize>,
        reason: Reason<'s>,
        send_to_experiment: bool,
    ) -> Evaluation<'s> {
        let variation = index.and_then(|index| self.flag.variations.get(index));
        let variation = Some(variation.unwrap_or(&NO_VARIATION));
        let (flag, is_split) = (&self.flag, false);
        Evaluation {
            flag,
            variation,
            reason,
            send_to_experiment,
            is_split,
            texts: &self.client_texts,
        }
    }
}

impl CompiledRule {
    fn explain<'s>(
        &self,
        source: &'s model::Rule,
        user: &User,
        context: &Context<'_>,
    ) -> EvaluatedRule<'s> {
        let mut conditions = vec![];
        for (condition, source) in self.conditions.iter().zip(&source.conditions) {
            let segments = condition.segments().iter();
            let segments = segments.filter(|id| (context.is_in_segment)(id));
            let holds = condition.holds(user, context);
            conditions.push(EvaluatedCondition {
                condition: source,
                found: condition.value_of(user).map(str::to_owned),
                segments: segments.map(|id| id.to_string()).collect(),
                holds,
            });
            if !holds {
                break;
            }
        }
        let is_met = conditions.iter().all(|it| it.holds);
        EvaluatedRule { name: &source.name, conditions, is_met }
    }
}

fn attribute(dispatch_key: Option<&str>) -> Option<Attribute> {
    dispatch_key.filter(|key| !key.trim().is_empty()).map(Attribute::new)
}

impl Rollout {
    /// The text that is hashed together with the flag's key.
    fn dispatch_value<'u>(&self, user: &'u User) -> &'u str {
        self.dispatch_by.as_ref().map_or(user.key_id.as_str(), |it| it.text_or_empty(user))
    }

    /// The index of the user's variation, and whether the evaluation counts for experiments.
    fn variation_of(&self, flag_key: &str, user: &User) -> (Option<usize>, bool) {
        let value = self.dispatch_value(user);
        // Computed at most once, and not at all for a part that takes all users.
        let mut known = None;
        let mut user_bucket = || *known.get_or_insert_with(|| bucket(&[flag_key, value]));
        let mut parts = self.parts.iter();
        let Some(part) = parts.find(|part| part.interval.contains(&mut user_bucket)) else {
            return (None, false);
        };
        let counts = self.is_in_experiment
            && part.experiment.is_some_and(|it| it.contains(|| bucket(&["expt", flag_key, value])));
        (part.variation, counts)
    }
}

impl Part {
    fn new(part: &RolloutVariation, variation: Option<usize>) -> Self {
        let [low, high] = part.rollout;
        let width = high - low;
        let is_nonzero = |number: f64| number.abs() >= f64::MIN_POSITIVE;
        let counts = is_nonzero(width) && is_nonzero(part.expt_rollout);
        let experiment = || Interval::new([0.0, (part.expt_rollout / width).min(1.0)]);
        let interval = Interval::new(part.rollout);
        Self { variation, interval, experiment: counts.then(experiment) }
    }

    const fn is_whole(&self) -> bool {
        matches!(self.interval, Interval::All)
    }
}
